// The names of tensors in parameter blocks, for a dialect of C++: included within its namespace, which
// defines In, Out and InOut. (glsl.h declares the same names as buffer references.)
using In_f32 = In<float>;
using In_f32x4 = In<vec4>;
using In_u32 = In<uint>;
using In_u32x4 = In<uvec4>;
using In_fixed64 = In<uvec2>; // see backends/element_type.h
using Out_f32 = Out<float>;
using Out_f32x4 = Out<vec4>;
using Out_u32 = Out<uint>;
using Out_fixed64 = Out<uvec2>;
using InOut_f32 = InOut<float>;
using InOut_f32x4 = InOut<vec4>;
using InOut_u32 = InOut<uint>;
