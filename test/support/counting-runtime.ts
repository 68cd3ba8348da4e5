/** A runtime that counts the bytes of buffers that were not freed, and fills freed ones with NaN. */
import type { Destination, MixedValues, Program, Runtime } from '../../src/runtime/program.js';
import { resident } from '../../src/runtime/program.js';
import { HostRows } from '../../src/runtime/row-buffer.js';

export interface MemoryCount {
  liveBytes: number;
}

export function countMemory(
  runtime: Runtime,
  drawsInPrograms = false,
): { readonly runtime: Runtime; readonly memory: MemoryCount } {
  const memory: MemoryCount = { liveBytes: 0 };
  const track = (data: Float32Array, width: number): HostRows => {
    let isLive = true;
    const bytes = Math.max(1, data.byteLength); // an empty buffer, too, must be freed
    memory.liveBytes += bytes;
    return new HostRows(data, width, () => {
      if (!isLive) return;
      isLive = false;
      data.fill(NaN);
      memory.liveBytes -= bytes;
    });
  };
  const count = (value: MixedValues[string]): MixedValues[string] =>
    'buffer' in value
      ? resident(track((value.buffer as HostRows).data, value.buffer.width), value.shape)
      : value;
  const wrap = (program: Program): Program => {
    const run = async (
      inputs: MixedValues,
      outputs?: readonly string[] | Readonly<Record<string, Destination>>,
    ): Promise<MixedValues> => {
      if (outputs === undefined || Array.isArray(outputs))
        return program.run(inputs, outputs as readonly string[] | undefined);
      const values = await program.run(inputs, outputs as Readonly<Record<string, Destination>>);
      return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, count(value)]));
    };
    return { inputs: program.inputs, run: run as Program['run'], dispose: () => program.dispose() };
  };
  return {
    memory,
    runtime: {
      name: runtime.name,
      drawsInPrograms,
      allocate: (rowCount, width) => track(new Float32Array(rowCount * width), width),
      compile: async (...given) => wrap(await runtime.compile(...given)),
      dispose: () => runtime.dispose(),
    },
  };
}
