// The one door to ONNX Runtime. Its native library (from 1.30 on) reports usage to its maker over the network unless an
// environment variable forbids it, so nothing else may import the package. Plain JavaScript, so that tests can run it from
// src/ in processes of their own.
import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { isMainThread } from 'node:worker_threads';

/** Has to run before the native library loads. A value that the user has set stays. */
export function disableTelemetry() {
  if (process.env.ORT_DISABLE_TELEMETRY !== undefined) return;
  if (!isMainThread && !sharesEnvironment()) {
    throw new Error(
      'The usage reports of ONNX Runtime cannot be switched off from a worker thread. ' +
        'Set ORT_DISABLE_TELEMETRY=1 for the process, or start the worker with the option env: SHARE_ENV.',
    );
  }
  process.env.ORT_DISABLE_TELEMETRY = '1';
}

/** Most workers have a copy of the environment that native code does not see. Reports list what native code sees. */
function sharesEnvironment() {
  process.env.MISTLETOE_PROBE = '1';
  const report = /** @type {{ environmentVariables?: Record<string, string> }} */ (
    process.report.getReport()
  );
  delete process.env.MISTLETOE_PROBE;
  return report.environmentVariables?.MISTLETOE_PROBE !== undefined;
}

/** @returns {typeof import('onnxruntime-node')} */
export function loadOnnxRuntime() {
  disableTelemetry();
  // An import statement would be hoisted above the line before.
  const require = /** @type {(name: string) => unknown} */ (createRequire(import.meta.url));
  return /** @type {typeof import('onnxruntime-node')} */ (require('onnxruntime-node'));
}

/**
 * The library that the package brings, to be called without the package; undefined if it has none for this platform.
 * @returns {string | undefined}
 */
export function findOnnxRuntimeLibrary() {
  disableTelemetry();
  const binaries = join(dirname(createRequire(import.meta.url).resolve('onnxruntime-node')), '../bin');
  for (const version of readdirSync(binaries)) {
    const folder = join(binaries, version, process.platform, process.arch);
    const name = readdirSync(folder).find((file) => file.startsWith('libonnxruntime.so'));
    if (name !== undefined) return join(folder, name);
  }
  return undefined;
}
