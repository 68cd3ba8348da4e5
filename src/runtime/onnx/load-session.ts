/** Loads a model through ONNX Runtime's C interface. */
import { type NativeApi, takeAddress } from './native-api.js';
import type { SessionOptions } from './session.js';

const allOptimizations = 99;
const fatal = 4;

/** Returns the session's address. */
export function loadSession(
  { call, release, environment, native }: NativeApi,
  model: Uint8Array,
  { threads, configuration, externalData = [] }: SessionOptions,
): number {
  const options = takeAddress((to) => {
    call.CreateSessionOptions(to);
  });
  // Texts that an array points to.
  const texts = externalData.map(({ path }) => new Uint8Array(Buffer.from(`${path}\0`)).slice());
  try {
    call.SetIntraOpNumThreads(options, threads);
    call.SetInterOpNumThreads(options, 1);
    call.SetSessionGraphOptimizationLevel(options, allOptimizations);
    call.SetSessionLogSeverityLevel(options, fatal);
    for (const [key, value] of Object.entries(configuration)) call.AddSessionConfigEntry(options, key, value);
    if (externalData.length > 0) {
      const at = ({ buffer, byteOffset }: Uint8Array): bigint =>
        native.addressOf(buffer) + BigInt(byteOffset);
      call.AddExternalInitializersFromFilesInMemory(
        options,
        BigUint64Array.from(texts, at),
        BigUint64Array.from(externalData, ({ data }) => at(data)),
        BigUint64Array.from(externalData, ({ data }) => BigInt(data.byteLength)),
        externalData.length,
      );
    }
    return takeAddress((to) => {
      call.CreateSessionFromArray(environment, model, model.byteLength, options, to);
    });
  } finally {
    release.sessionOptions(options);
  }
}
