// What a hook may import as "xlaserver/text".
//
// Like api.ts this is a contract with code that we do not own. It must stay free of side effects and of native code:
// it is also bundled, alone, for `xlaserver test`.

export { BertTokenizer, type EncodeOptions, type Encoding } from "./bert-tokenizer.ts";
