/**
 * A session of ONNX Runtime's C interface. Inputs are read where they are and outputs written where they belong; small
 * ones pass through memory of the session instead, so that most of its tensors stay the same from run to run.
 */
import { keepArray } from '../spare-arrays.js';
import { loadSession } from './load-session.js';
import type { NativeApi } from './native-api.js';
import { NativeTensors } from './native-tensors.js';
import type {
  Session,
  SessionOptions,
  SessionResults,
  SessionSignature,
  SessionValue,
  WantedOutput,
} from './session.js';

export function createNativeSession(
  api: NativeApi,
  model: Uint8Array,
  options: SessionOptions,
  signature: SessionSignature,
): Session {
  return new NativeSession(api, loadSession(api, model, options), signature);
}

/** Timers and connections get their turn at least this often. */
const turnMs = 4;
let lastTurnMs = 0;

class NativeSession implements Session {
  private readonly names: bigint;
  private readonly outputNames: Float64Array; // addresses, as the bits of doubles
  private readonly inputs: NativeTensors;
  private readonly outputs: NativeTensors;
  /** Of the inputs that a run writes. */
  private readonly updatedPlaces: readonly number[];
  /** Names and tensors of what a run writes: updated inputs, then the wanted outputs. */
  private readonly writtenNames: Float64Array;
  private readonly written: Float64Array;
  private version = -1;

  constructor(
    private readonly api: NativeApi,
    private readonly session: number,
    { inputs, outputs, updates }: SessionSignature,
  ) {
    const texts = [...inputs, ...updates.map(({ output }) => output), ...outputs];
    const most = updates.length + outputs.length;
    const { memory, places, block } = placeTexts(api, texts, 2 * most);
    this.names = memory;
    this.writtenNames = new Float64Array(block, 8 * texts.length, most);
    this.written = new Float64Array(block, 8 * (texts.length + most), most);
    this.writtenNames.set(places.subarray(inputs.length, inputs.length + updates.length));
    this.outputNames = places.subarray(inputs.length + updates.length);
    this.inputs = new NativeTensors(api, inputs.length);
    this.outputs = new NativeTensors(api, outputs.length);
    this.updatedPlaces = updates.map(({ input }) => inputs.indexOf(input));
  }

  async run(inputs: readonly SessionValue[], outputs: readonly WantedOutput[]): Promise<SessionResults> {
    if (performance.now() - lastTurnMs > turnMs) {
      await new Promise(setImmediate);
      lastTurnMs = performance.now();
    }
    for (let place = 0; place < inputs.length; place++) this.inputs.place(place, inputs[place]!);
    this.repeatUpdates();
    const { written, writtenNames, updatedPlaces } = this;
    const takes = outputs.map((output, index) => {
      const take = this.outputs.prepare(output.place, output);
      writtenNames[updatedPlaces.length + index] = this.outputNames[output.place]!;
      written[updatedPlaces.length + index] = this.outputs.addresses[output.place]!;
      return take;
    });
    const start = Number(this.names);
    this.api.call.Run(
      this.session,
      0,
      start,
      this.inputs.address,
      inputs.length,
      start + writtenNames.byteOffset,
      updatedPlaces.length + outputs.length,
      start + written.byteOffset,
    );
    return takes.map((take) => take());
  }

  recycle(values: Float32Array): void {
    keepArray(values);
  }

  release(): Promise<void> {
    this.inputs.release();
    this.outputs.release();
    this.api.release.session(this.session);
    this.api.native.free(this.names);
    return Promise.resolve();
  }

  private repeatUpdates(): void {
    if (this.version === this.inputs.version) return;
    this.version = this.inputs.version;
    for (let index = 0; index < this.updatedPlaces.length; index++)
      this.written[index] = this.inputs.addresses[this.updatedPlaces[index]!]!;
  }
}

/** Addresses of C texts, room for more addresses, and the texts themselves, in one block. */
function placeTexts({ native }: NativeApi, names: readonly string[], room: number) {
  const texts = names.map((name) => Buffer.from(`${name}\0`));
  const addressBytes = 8 * (names.length + room);
  const bytes = texts.reduce((sum, { length }) => sum + length, addressBytes);
  const memory = native.allocate(bytes);
  const block = native.view(memory, bytes);
  const addresses = new BigUint64Array(block, 0, names.length);
  let at = addressBytes;
  texts.forEach((text, index) => {
    new Uint8Array(block).set(text, at);
    addresses[index] = memory + BigInt(at);
    at += text.length;
  });
  return { memory, block, places: new Float64Array(block, 0, names.length) };
}
