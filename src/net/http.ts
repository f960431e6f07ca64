// Plain HTTP for pages that people and monitors read: metrics, liveness, readiness.
//
// Invariant: GET and HEAD of a known path are answered by its route, an unknown path by 404, any other method by 405.
// The one door for HTTP sockets; started by `worker/`.

export interface Page {
  readonly status: number;
  readonly contentType: string;
  readonly body: string;
}

export interface HttpServerOptions {
  readonly host: string;
  /** 0 lets the system choose. */
  readonly port: number;
  /** By path, exactly. */
  readonly routes: ReadonlyMap<string, () => Page | Promise<Page>>;
  /** A route threw: for the log. */
  readonly onDefect: (path: string, error: unknown) => void;
}

export interface HttpServer {
  readonly port: number;
  /** Closes everything at once. */
  stop(): void;
}

/** Starts a server. Throws if the address can't be bound. */
export function startHttpServer(options: HttpServerOptions): HttpServer {
  const server = Bun.serve({
    hostname: options.host,
    port: options.port,
    fetch: (request) => answer(request, options),
  });
  return { port: server.port!, stop: () => void server.stop(true) };
}

async function answer(request: Request, { routes, onDefect }: HttpServerOptions): Promise<Response> {
  if (request.method !== "GET" && request.method !== "HEAD") {
    return text(405, "method not allowed\n", { allow: "GET, HEAD" });
  }
  const { pathname } = new URL(request.url);
  const route = routes.get(pathname);
  if (route === undefined) return text(404, "not found\n");
  try {
    const page = await route();
    return text(page.status, page.body, { "content-type": page.contentType });
  } catch (error) {
    onDefect(pathname, error);
    return text(500, "internal error; the server's log has its cause\n");
  }
}

function text(status: number, body: string, headers: Record<string, string> = {}): Response {
  return new Response(body, { status, headers: { "content-type": "text/plain; charset=utf-8", ...headers } });
}
