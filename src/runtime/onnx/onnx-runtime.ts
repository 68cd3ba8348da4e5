/**
 * Graphs on the CPU through ONNX Runtime. Weights lie in a cache file; the model is written beside that file for the
 * moment of loading, because ONNX Runtime maps external data only from the model's own folder, and every session then
 * shares the mapped pages. Programs are cached by graph: asking twice compiles once.
 */
import { createHash, randomUUID } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type ort from 'onnxruntime-node';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { mostThreads } from '../../core/limits.js';
import { countElements } from '../../graph/dimension.js';
import { sortTopologically } from '../../graph/tensor.js';
import type {
  CompileOptions,
  InputDescription,
  NamedTensors,
  NamedValues,
  Program,
  Runtime,
  TensorValue,
} from '../program.js';
import { bindInputs, checkTypes } from '../program.js';
import type { WeightStore } from '../weights.js';
import { inputName, outputName } from './builder.js';
import type { LoweredModel } from './lowering.js';
import { lowerToOnnx } from './lowering.js';
import type { Session, SessionHost, SessionValue } from './session-host.js';
import { createLocalHost, createWorkerHost } from './session-host.js';

export interface OnnxRuntimeOptions {
  readonly threads?: number;
  /** Run in a worker thread, so that this thread's event loop stays free. */
  readonly worker?: boolean;
  /**
   * Weights up to this size are also kept in the kernels' own packed order by programs that ask for it: decoding one
   * token at a time is then several times faster, at the price of one more copy. Larger ones are only mapped.
   */
  readonly packedWeightLimitBytes?: number;
}

const defaultPackedWeightLimit = 512 * 2 ** 20;

export function createOnnxRuntime(options: OnnxRuntimeOptions = {}): Runtime {
  return new OnnxRuntime(options);
}

class OnnxRuntime implements Runtime {
  readonly name = 'onnx';
  private readonly host: SessionHost;
  private readonly threads: number;
  private readonly packedWeightLimit: number;
  private readonly programs = new Map<string, Promise<OnnxProgram>>();

  constructor(options: OnnxRuntimeOptions) {
    this.host = options.worker === true ? createWorkerHost() : createLocalHost();
    this.threads = checkThreads(options.threads ?? Math.min(availableParallelism(), mostThreads));
    this.packedWeightLimit = options.packedWeightLimitBytes ?? defaultPackedWeightLimit;
  }

  async compile(
    outputs: NamedTensors,
    weights: readonly WeightStore[] = [],
    options: CompileOptions = {},
  ): Promise<Program> {
    const model = lowerToOnnx(outputs, weights);
    const packed = options.packed === true && sizeOfProducts(outputs) <= this.packedWeightLimit;
    const key = identify(model, packed);
    const known = this.programs.get(key);
    if (known !== undefined) return known;
    const program = this.load(model, packed).then(
      (session) => new OnnxProgram(session, model, () => this.programs.delete(key)),
    );
    this.programs.set(key, program);
    program.catch(() => this.programs.delete(key));
    return program;
  }

  private async load(model: LoweredModel, packed: boolean): Promise<Session> {
    const options: ort.InferenceSession.SessionOptions = {
      intraOpNumThreads: this.threads,
      interOpNumThreads: 1,
      graphOptimizationLevel: 'all',
      logSeverityLevel: 4, // what fails is thrown; ONNX Runtime need not print it too
      extra: {
        session: {
          // A drafter and a target take turns: a pool that keeps spinning after its turn steals the other's core.
          force_spinning_stop: '1',
          ...(packed ? {} : { disable_prepacking: '1' }),
        },
      },
    };
    try {
      return await this.loadMapped(model, options);
    } catch (cause) {
      throw new MistletoeError('runtime', `ONNX Runtime refused the program: ${describeCause(cause)}`, {
        cause,
      });
    }
  }

  private async loadMapped(
    model: LoweredModel,
    options: ort.InferenceSession.SessionOptions,
  ): Promise<Session> {
    if (model.folder === undefined) return await this.loadCopied(model, options);
    const path = join(model.folder, `program-${randomUUID()}.onnx`);
    try {
      await writeFile(path, model.bytes);
      return await this.host.create(path, options);
    } catch (cause) {
      if (isUnwritable(cause)) return await this.loadCopied(model, options);
      throw cause;
    } finally {
      await rm(path, { force: true });
    }
  }

  private async loadCopied(
    model: LoweredModel,
    options: ort.InferenceSession.SessionOptions,
  ): Promise<Session> {
    const externalData: { path: string; data: Uint8Array }[] = [];
    for (const { location, source } of model.externalFiles) {
      const data = typeof source === 'string' ? await readFile(source) : source;
      externalData.push({ path: location, data });
    }
    const withData = externalData.length === 0 ? options : { ...options, externalData };
    return this.host.create(model.bytes, withData);
  }

  async dispose(): Promise<void> {
    const programs = await Promise.allSettled(this.programs.values());
    for (const program of programs) if (program.status === 'fulfilled') await program.value.dispose();
    await this.host.close();
  }
}

class OnnxProgram implements Program {
  private released = false;

  readonly inputs: readonly InputDescription[];
  private readonly outputs: readonly string[];

  constructor(
    private readonly session: Session,
    model: LoweredModel,
    private readonly onDispose: () => void,
  ) {
    this.inputs = model.inputs;
    this.outputs = model.outputs;
  }

  async run(values: NamedValues, wanted: readonly string[] = this.outputs): Promise<NamedValues> {
    if (this.released) throw new MistletoeError('runtime', 'The program was run after it was disposed of.');
    bindInputs(this.inputs, values);
    checkTypes(this.inputs, values);
    const feeds: Record<string, SessionValue> = {};
    for (const { name, dtype } of this.inputs) {
      const { data, shape } = values[name]!;
      feeds[inputName(name)] = { type: dtype, data, dims: shape };
    }
    let results;
    try {
      results = await this.session.run(feeds, wanted.map(outputName));
    } catch (cause) {
      throw new MistletoeError('runtime', `ONNX Runtime failed in a run: ${describeCause(cause)}`, { cause });
    }
    const outputs: Record<string, TensorValue> = {};
    for (const name of wanted) {
      const { data, dims } = results[outputName(name)]!;
      outputs[name] = { data, shape: dims };
    }
    return outputs;
  }

  async dispose(): Promise<void> {
    if (this.released) return;
    this.released = true;
    this.onDispose();
    await this.session.release();
  }
}

function checkThreads(threads: number): number {
  if (Number.isInteger(threads) && threads >= 1 && threads <= mostThreads) return threads;
  throw new MistletoeError(
    'usage',
    `${threads} threads were asked for; a whole number from 1 to ${mostThreads} was expected.`,
    { hint: 'Leave the number out to use every processor of this machine.' },
  );
}

/** No model can be written beside the weights: they are then read instead of mapped. */
function isUnwritable(cause: unknown): boolean {
  const code = cause instanceof Error && 'code' in cause ? cause.code : undefined;
  return code === 'EACCES' || code === 'EPERM' || code === 'EROFS';
}

function identify(model: LoweredModel, packed: boolean): string {
  const hash = createHash('sha256').update(model.bytes).update(String(packed));
  for (const { source } of model.externalFiles) {
    // Weights held in memory have no name to know them by: such programs are told apart by identity.
    hash.update(typeof source === 'string' ? source : randomUUID());
  }
  return hash.digest('hex');
}

/** Bytes of the weights that matrix products read; tables that are only looked up do not count. */
function sizeOfProducts(outputs: NamedTensors): number {
  const weights = new Map<string, number>();
  for (const tensor of sortTopologically(Object.values(outputs))) {
    if (tensor.operation !== 'contract') continue;
    for (const input of tensor.inputs) {
      if (input.operation !== 'weight') continue;
      weights.set(input.attributes.name, 4 * (countElements(input.shape) as number));
    }
  }
  return [...weights.values()].reduce((total, bytes) => total + bytes, 0);
}
