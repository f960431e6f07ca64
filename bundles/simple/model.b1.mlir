module @simple {
  func.func public @main(%input0: tensor<1x16xi32>, %input1: tensor<1x16xi32>)
      -> (tensor<1x16xi32>, tensor<1x16xi32>) {
    %sum = stablehlo.add %input0, %input1 : tensor<1x16xi32>
    %difference = stablehlo.subtract %input0, %input1 : tensor<1x16xi32>
    return %sum, %difference : tensor<1x16xi32>, tensor<1x16xi32>
  }
}
