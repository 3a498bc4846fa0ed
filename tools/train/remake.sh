#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes every file of models/ and tests/data/ again: sh tools/train/remake.sh [PYTHON]
# PYTHON is an interpreter with tools/train/requirements.txt installed.
set -eu
python=${1:-python3}
cd "$(dirname "$0")/../.."
t=tools/train
mkdir -p build/models
$python $t/check_numerics.py --count 300
for m in lenet resnet; do
	$python $t/train.py $m -o build/models/$m.float.onnx
done
$python $t/quantise.py build/models/lenet.float.onnx -o models/lenet.onnx --type uint8 --keep-relu
$python $t/quantise.py build/models/resnet.float.onnx -o models/resnet.onnx --type int8
$python $t/train_sc.py mlp -o models/mlp.onnx
$python $t/train_sc.py lenet540 -o models/lenet540.onnx
$python $t/train_sc.py mlp --length 20 --epochs 4 --lr 1e-3 --start build/models/mlp.pt -o models/mlp20.onnx
$python $t/train_sc.py lenet540 --length 20 --epochs 1 --lr 1e-3 --start build/models/lenet540.pt -o models/lenet20.onnx
# Each step fits the weights that stay to the dense model, so that the next one chooses among better ones.
# Needs build/rivulet.
$python $t/dequantise.py models/resnet.onnx -o models/cnn-0.onnx
last=models/cnn-0.onnx
for s in 37.5 50 62.5 68.75 75 80; do
	build/rivulet prune $last --sparsity $s -o build/models/pruned.onnx
	last=build/models/cnn-$s.onnx
	$python $t/finetune.py build/models/pruned.onnx --dense models/cnn-0.onnx --steps 0 -o $last
done
for s in 50 75 80; do
	cp build/models/cnn-$s.onnx models/
done
b=build/models/binary
$python $t/train_binary.py binary -o $b.float.onnx
$python $t/train_binary.py binary --threads 2 --start $b.float.onnx -o $b.tuned.onnx
$python $t/train_binary.py binary --threads 2 --start $b.tuned.onnx --rounded 0.1 --pictures 16000 -o models/binary.onnx
$python $t/train_binary.py real -o models/binary-real.onnx
for m in lenet resnet; do
	$python $t/record.py models/$m.onnx -o models/$m.expected
done
cases="$t/gen_conv_cases.py --seed 20261121 --max-bytes 9000"
$python $cases --count 500 -o tests/data/conv_500.bin
$python $cases --count 10000 --compact -o tests/data/conv_10000.bin
$python $t/gen_qdq_models.py -o tests/data/qdq
for m in mobilenetv2:mobilenetv2 vgg16-features:vgg16; do
	out=build/${m#*:}
	$python tools/zoo/zoo.py ${m%:*} -o $out.onnx --image $out.npy
	$python $t/record_one.py $out.onnx $out.npy -o tests/data/${m#*:}.npy
done
