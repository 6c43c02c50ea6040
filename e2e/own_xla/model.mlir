module @jit_model attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4xf32>) -> (tensor<6xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<8.000000e+00> : tensor<f32>
    %cst_1 = stablehlo.constant dense<[5.000000e-01, 1.000000e+00, 1.500000e+00, 2.000000e+00]> : tensor<4xf32>
    %cst_2 = stablehlo.constant dense<[2.500000e-01, -2.500000e-01, 1.000000e+00]> : tensor<3xf32>
    %0 = stablehlo.iota dim = 0 : tensor<24xf32>
    %1 = stablehlo.reshape %0 : (tensor<24xf32>) -> tensor<4x6xf32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %3 = stablehlo.divide %1, %2 : tensor<4x6xf32>
    %4 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4x6xf32>
    %5 = stablehlo.subtract %3, %4 : tensor<4x6xf32>
    %6 = stablehlo.custom_call @xla_ffi_kit.rms_norm(%arg0, %cst_1) {mhlo.backend_config = {eps = 9.9999999999999995E-7 : f64}, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %7 = stablehlo.dot_general %6, %5, contracting_dims = [0] x [0] : (tensor<4xf32>, tensor<4x6xf32>) -> tensor<6xf32>
    %8 = stablehlo.custom_call @xla_ffi_kit.modular_add(%cst_2, %7) {mhlo.backend_config = {}, operand_layouts = [dense<0> : tensor<1xindex>, dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<3xf32>, tensor<6xf32>) -> tensor<6xf32>
    %9 = stablehlo.custom_call @xla_ffi_kit.relu(%8) {mhlo.backend_config = {}, operand_layouts = [dense<0> : tensor<1xindex>], result_layouts = [dense<0> : tensor<1xindex>]} : (tensor<6xf32>) -> tensor<6xf32>
    return %9 : tensor<6xf32>
  }
}
