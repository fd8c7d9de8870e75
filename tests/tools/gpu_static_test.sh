#!/bin/sh
# Tests gpu_static on canned output: stand-ins for nvcc and nvdisasm print what these would print of one kernel. The
# program that counts bank conflicts is the real one.
#   gpu_static_test.sh GPU_STATIC COMPILER
set -u
tool=${1:?usage: gpu_static_test.sh GPU_STATIC COMPILER}
compiler=${2:?usage: gpu_static_test.sh GPU_STATIC COMPILER}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

function=_ZN6towers9cuda_text11lrn_forwardENS0_16LrnForwardParamsE
# stand_in SPILLS: nvcc, which makes code of so many bytes of spill stores and loads
stand_in() {
    cat >"$work/nvcc" <<END
#!/bin/sh
case "\$*" in *"-x c++"*) exec $compiler "\$@" ;; esac
cat >&2 <<TEXT
ptxas info    : Compiling entry function '$function' for 'sm_90'
ptxas info    : Function properties for $function
    8 bytes stack frame, $1 bytes spill stores, $1 bytes spill loads
ptxas info    : Used 26 registers, used 1 barriers, 512 bytes smem
TEXT
END
}
# A loop of 12 instructions around one of 6, which holds 3 of their 4 multiply-adds
cat >"$work/nvdisasm" <<END
#!/bin/sh
cat <<'TEXT'
	.section	.text.$function,"ax",@progbits
.text.$function:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   LDG.E R2, desc[UR4][R2.64] ;
.L_x_2:
        /*0020*/                   UI2F.U32.RP UR6, UR7 ;
        /*0030*/                   I2F.U32 R0, R5 ;
        /*0040*/                   LDG.E.128.CONSTANT R4, desc[UR4][R2.64] ;
        /*0050*/                   FFMA R4, R4, R5, R6 ;
        /*0060*/               @P0 BRA \`(.L_x_3) ;
.L_x_1:
        /*0070*/                   LDS.64 R4, [R2] ;
        /*0080*/               @P1 FFMA R4, R4, R5, R6 ;
        /*0090*/                   HMMA.16816.F32.BF16 R4, R8, R10, R4 ;
        /*00a0*/              @!P2 FFMA2 R4, R4, R5, R6 ;
        /*00b0*/                   IADD3 R2, R2, 0x10, RZ ;
        /*00c0*/             @!UP0 BRA \`(.L_x_1) ;
.L_x_3:
        /*00d0*/               @P0 BRA \`(.L_x_2) ;
        /*00e0*/                   EXIT ;
.L_x_4:
        /*00f0*/                   BRA \`(.L_x_4);
TEXT
END
printf '%s\n' '# of lrn_forward' '.50 0 128 0 lrn_forward' '.9 0 0 0 *' >"$work/met"
chmod +x "$work/nvdisasm"
# expect CODE TEXT FLAGS...
expect() {
    code=$1 text=$2
    shift 2
    [ ! -f "$work/nvcc" ] || chmod +x "$work/nvcc"
    "$tool" --arch 90 --kernel lrn_forward --nvcc "$work/nvcc" --nvdisasm "$work/nvdisasm" --required "$work/met" "$@" \
        >"$work/out" 2>&1
    got=$?
    if [ $got -ne "$code" ] || ! grep -qF -- "$text" "$work/out" || grep -q Traceback "$work/out"; then
        cat "$work/out"
        echo "FAILED: gpu_static $*: exit code $got and this output instead of $code and '$text'"
        exit 1
    fi
}

stand_in 0
expect 0 "all kernels have the required figures" --json "$work/good.json"
set -- $(grep '^lrn_forward' "$work/out")
row="lrn_forward sm_90 26 0 8 512 16 1/0/1 0/1/0 1 6 0.50 0/0/0 0/1/0 0 -/-"
[ "$*" = "$row" ] || { echo "FAILED: '$*' instead of '$row'"; exit 1; }
expect 0 "nothing differs" --baseline "$work/good.json"
stand_in 12
expect 1 "FAILED sm_90 lrn_forward: 24 bytes of spills, more than 0" --baseline "$work/good.json"
grep -q '^sm_90 *lrn_forward *spills *0 *24' "$work/out" || { cat "$work/out"; echo "FAILED: the baseline"; exit 1; }
echo '.51 99 0 0 lrn_*' >"$work/share"
expect 1 "the inner loop's FMA share is 0.50, below 0.51" --required "$work/share"
sed -i 's/LDG.E.128/LDG.E.64/' "$work/nvdisasm"
expect 1 "the widest load has 64 bits, fewer than 128"
echo 'no figures' >"$work/share"
expect 2 "share:1: give the least FMA share" --required "$work/share"
printf '#!/bin/sh\necho "lrn.h(3): error: no such thing" >&2\nexit 1\n' >"$work/nvcc"
expect 1 "FAILED sm_90: lrn_forward: lrn.h(3): error: no such thing"
printf '#!/bin/sh\n' >"$work/nvcc"
expect 1 "FAILED sm_90: lrn_forward: not in the listing"
expect 2 "no kernel fits" --kernel nothing
expect 2 "is not a list of compute capabilities" --arch new
expect 77 "SKIPPED" --nvcc ""

# A copy of the sources, where sources by quads and by fragments may be wrong
mkdir -p "$work/copy/tests/tools" "$work/copy/backends/cuda"
from=$(dirname "$tool")
cp "$from/gpu_static" "$from/figures.py" "$from/bank_conflicts.cpp" "$work/copy/tests/tools"
cp "$from/../../backends/cuda/tiled_kernel.cu.in" "$work/copy/backends/cuda"
cp -r "$from/../../shaders" "$work/copy"
tool=$work/copy/tests/tools/gpu_static
sed -i "s/$function/_ZN6towers9cuda_text20conv2d_forward_quadsENS0_19Conv2dForwardParamsE/" "$work/nvdisasm"
function=_ZN6towers9cuda_text20conv2d_forward_quadsENS0_19Conv2dForwardParamsE
stand_in 0
echo '0 0 0 0 *' >"$work/any"
expect 0 "  0/0" --kernel "conv2d_forward 128x64 quads" --required "$work/any"
sed -i 's|(length) / 4u + 1u|(length) / 4u|' "$work/copy/shaders/gemm_quads.h"
expect 1 "bank conflicts, more than 0" --kernel "conv2d_forward 128x64 quads" --required "$work/any"
sed -i 's/20conv2d_forward_quads/24conv2d_forward_fragments/' "$work/nvdisasm"
function=_ZN6towers9cuda_text24conv2d_forward_fragmentsENS0_19Conv2dForwardParamsE
stand_in 0
expect 0 "  0/0" --kernel "conv2d_forward 128x64 fragments bf16" --required "$work/any"
sed -i 's|(row & 1u) << 2u|(row \& 1u)|; s|(row >> 2u & 1u)|(row \& 4u)|' "$work/copy/shaders/gemm_fragments.h"
expect 1 "bank conflicts, more than 0" --kernel "conv2d_forward 128x64 fragments bf16" --required "$work/any"
sed -i 's/24conv2d_forward_fragments/20conv2d_forward_quads/' "$work/nvdisasm"
function=_ZN6towers9cuda_text20conv2d_forward_quadsENS0_19Conv2dForwardParamsE
stand_in 0
echo 'an error' >"$work/copy/shaders/gemm_quads.h"
expect 1 "conv2d_forward 128x64 quads: its bank conflicts: " --kernel "conv2d_forward 128x64 quads"
echo "gpu_static counts instructions and bank conflicts, and reports spills, missing figures and failures"
