module @identity_fp32 {
  func.func public @main(%input0: tensor<1x16xf32>) -> tensor<1x16xf32> {
    return %input0 : tensor<1x16xf32>
  }
}
