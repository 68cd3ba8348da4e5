import { afterAll, expect, it } from 'vitest';
import { bundledTarget } from '../../src/core/package-files.js';
import { openTarget } from '../../src/decode/target.js';
import { lowerToOnnx } from '../../src/runtime/onnx/lowering.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../../src/runtime/program.js';

const onnx = createOnnxRuntime({ threads: 1 });
afterAll(() => onnx.dispose());

// Every node costs time at each token, most of all those that only move values.
it("keeps the bundled target's program small", async () => {
  const counts: number[] = [];
  const runtime: Runtime = {
    name: 'counting',
    allocate: (...size) => onnx.allocate(...size),
    compile(outputs, weights = [], options) {
      counts.push(lowerToOnnx(outputs, weights).nodeCount);
      return onnx.compile(outputs, weights, options);
    },
    dispose: () => Promise.resolve(),
  };
  const { model } = await openTarget(bundledTarget, { runtime });
  await model.forward({ tokens: Int32Array.of(1, 2), cache: model.createCache(), want: ['argmax'] });
  const aroundLayers = 23;
  const ofOneLayer = 33;
  expect(counts).toHaveLength(1);
  expect(counts[0]).toBeLessThanOrEqual(aroundLayers + ofOneLayer * model.configuration.layerCount);
});
