/**
 * A session of ONNX Runtime's C interface. Inputs are read where they are and outputs written where they belong; small
 * ones pass through memory of the session instead, so that most of its tensors stay the same from run to run.
 */
import type { NativeApi } from './native-api.js';
import { takeAddress } from './native-api.js';
import { NativeTensors } from './native-tensors.js';
import type {
  Session,
  SessionOptions,
  SessionResult,
  SessionSignature,
  SessionValue,
  WantedOutput,
} from './session.js';

export function createNativeSession(
  api: NativeApi,
  model: string | Uint8Array,
  options: SessionOptions,
  signature: SessionSignature,
): Session {
  return new NativeSession(api, loadSession(api, model, options), signature);
}

class NativeSession implements Session {
  private readonly names: number;
  private readonly nameAddresses = new Map<string, bigint>();
  private readonly inputs: NativeTensors;
  private readonly outputs: NativeTensors;
  private readonly updatedPlaces: readonly number[];
  private readonly outputPlaces: ReadonlyMap<string, number>;
  /** What a run asks for: names and tensors of its outputs. */
  private readonly wanted: {
    readonly address: number;
    readonly names: BigUint64Array;
    readonly values: BigUint64Array;
  };
  private readonly inputNames: number;

  constructor(
    private readonly api: NativeApi,
    private readonly session: number,
    private readonly signature: SessionSignature,
  ) {
    const { native } = api;
    const { inputs, outputs, updates } = signature;
    const names = [...inputs, ...outputs, ...updates.map(({ output }) => output)];
    const texts = names.map((name) => Buffer.from(`${name}\0`));
    const most = outputs.length + updates.length;
    const pointerBytes = 8 * (inputs.length + 2 * most);
    const bytes = pointerBytes + texts.reduce((sum, text) => sum + text.length, 0);
    const memory = native.allocate(bytes);
    this.names = Number(memory);
    const block = native.view(memory, bytes);
    let at = pointerBytes;
    for (const [index, name] of names.entries()) {
      new Uint8Array(block).set(texts[index]!, at);
      this.nameAddresses.set(name, memory + BigInt(at));
      at += texts[index]!.length;
    }
    this.inputNames = this.names;
    new BigUint64Array(block, 0, inputs.length).set(inputs.map((name) => this.nameAddresses.get(name)!));
    const start = 8 * inputs.length;
    this.wanted = {
      address: this.names + start,
      names: new BigUint64Array(block, start, most),
      values: new BigUint64Array(block, start + 8 * most, most),
    };
    this.inputs = new NativeTensors(api, inputs.length);
    this.outputs = new NativeTensors(api, outputs.length);
    this.updatedPlaces = updates.map(({ input }) => inputs.indexOf(input));
    this.outputPlaces = new Map(outputs.map((name, place) => [name, place]));
  }

  async run(
    inputs: Readonly<Record<string, SessionValue>>,
    outputs: readonly WantedOutput[],
  ): Promise<Readonly<Record<string, SessionResult>>> {
    // Timers and connections get their turn between runs.
    await new Promise(setImmediate);
    this.signature.inputs.forEach((name, place) => {
      this.inputs.place(place, inputs[name]!);
    });
    const { wanted } = this;
    const results: Record<string, SessionResult> = {};
    const takes = outputs.map((output, index) => {
      const place = this.outputPlaces.get(output.name)!;
      const take = this.outputs.prepare(place, output);
      wanted.names[index] = this.nameAddresses.get(output.name)!;
      wanted.values[index] = this.outputs.addresses[place]!;
      return take;
    });
    this.updatedPlaces.forEach((place, index) => {
      wanted.names[outputs.length + index] = this.nameAddresses.get(this.signature.updates[index]!.output)!;
      wanted.values[outputs.length + index] = this.inputs.addresses[place]!;
    });
    this.api.call.Run(
      this.session,
      0,
      this.inputNames,
      this.inputs.address,
      this.signature.inputs.length,
      wanted.address,
      outputs.length + this.updatedPlaces.length,
      wanted.address + wanted.names.byteLength,
    );
    outputs.forEach(({ name, dims }, index) => {
      results[name] = { data: takes[index]!(), dims };
    });
    return results;
  }

  release(): Promise<void> {
    this.inputs.release();
    this.outputs.release();
    this.api.release.session(this.session);
    this.api.native.free(BigInt(this.names));
    return Promise.resolve();
  }
}

const allOptimizations = 99;
const fatal = 4;

function loadSession(
  { call, release, environment, native }: NativeApi,
  model: string | Uint8Array,
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
      if (typeof model === 'string') call.CreateSession(environment, model, options, to);
      else call.CreateSessionFromArray(environment, model, model.byteLength, options, to);
    });
  } finally {
    release.sessionOptions(options);
  }
}
