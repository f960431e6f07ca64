module @dense_v2 {
  func.func public @main(%x: tensor<4x3xf32>, %weight: tensor<2x3xf32>, %bias: tensor<2xf32>) -> tensor<4x2xf32> {
    %product = stablehlo.dot_general %x, %weight, contracting_dims = [1] x [1]
        : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<4x2xf32>
    %biases = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<2xf32>) -> tensor<4x2xf32>
    %y = stablehlo.add %product, %biases : tensor<4x2xf32>
    return %y : tensor<4x2xf32>
  }
}
