/**
 * Runs graphs on the CPU through ONNX Runtime. Models are loaded from memory and map the weight cache's files, so all
 * sessions share their pages. Sessions are cached by graph and released with their last program.
 */
import { createHash, randomUUID } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { setImmediate } from 'node:timers/promises';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { maxThreads } from '../../core/limits.js';
import { PreparationClock } from '../preparation-clock.js';
import type { CompileOptions, NamedTensors, Program, Runtime } from '../program.js';
import { allocateHostRows } from '../row-buffer.js';
import type { QuantizedType, WeightStore } from '../weights.js';
import { inputName, outputName } from './builder.js';
import { sessionFactory, type SessionRequest } from './create-session.js';
import { findNativeApi } from './native-api.js';
import { CheckedSession, type Session } from './session.js';
import { lowerToOnnx, type LoweredModel } from './lowering.js';
import { OnnxProgram } from './onnx-program.js';
import { PackedWeights } from './packed-weights.js';
import { QuantizedWeights } from './quantized-weights.js';
import { mappingFrom } from './weight-placement.js';
import { listProducts } from './weight-products.js';

export interface OnnxRuntimeOptions {
  readonly threads?: number | undefined;
  /**
   * Packed weights make single-token decoding several times faster. Up to this size the packed copy is in memory;
   * above, it is a file in the cache.
   */
  readonly packedWeightLimitBytes?: number | undefined;
  /** Decodes with matrices of fewer bits (quantized-weights.ts). */
  readonly quantization?: QuantizedType | undefined;
  /** How ONNX Runtime is called; default: through its C interface if that can be called. */
  readonly binding?: SessionRequest['binding'];
}

export const defaultPackedWeightLimit = 512 * 2 ** 20;

export function createOnnxRuntime(options: OnnxRuntimeOptions = {}): Runtime {
  return new OnnxRuntime(options);
}

interface SharedSession {
  readonly model: LoweredModel;
  readonly loading: Promise<Session>;
  holders: number;
}

class OnnxRuntime implements Runtime {
  readonly name = 'onnx';
  readonly allocate = allocateHostRows;
  readonly keepsHalvesAbove: number;
  readonly attendsInPlace: (headSize: number) => boolean;
  readonly quantization: QuantizedType | undefined;
  private readonly threads: number;
  private readonly packedWeightLimit: number;
  private readonly binding: SessionRequest['binding'];
  private readonly packedWeights = new PackedWeights();
  private readonly quantizedWeights: QuantizedWeights | undefined;
  private readonly sessions = new Map<string, SharedSession>();
  private readonly programs = new Set<OnnxProgram>();
  private readonly preparation = new PreparationClock();
  private isDisposed = false;

  constructor(options: OnnxRuntimeOptions) {
    this.threads = checkThreads(options.threads ?? Math.min(availableParallelism(), maxThreads));
    this.packedWeightLimit = options.packedWeightLimitBytes ?? defaultPackedWeightLimit;
    this.keepsHalvesAbove = this.packedWeightLimit;
    this.binding = options.binding;
    const isNative = options.binding !== 'script' && findNativeApi() !== undefined;
    // The kernel takes no other sizes.
    this.attendsInPlace = (headSize) => isNative && headSize % 8 === 0;
    this.quantization = options.quantization;
    this.quantizedWeights = this.quantization && new QuantizedWeights(this.quantization);
  }

  get preparationMs(): number {
    return this.preparation.ms;
  }

  compile(
    outputs: NamedTensors,
    weights: readonly WeightStore[] = [],
    options: CompileOptions = {},
  ): Promise<Program> {
    return this.preparation.during(() => this.findProgram(outputs, weights, options));
  }

  private async findProgram(
    outputs: NamedTensors,
    weights: readonly WeightStore[],
    options: CompileOptions,
  ): Promise<Program> {
    this.refuseWhenDisposed();
    const { stores, packed } = await this.chooseWeights(outputs, weights, options);
    this.refuseWhenDisposed();
    const model = this.preparation.blocking(() => lowerToOnnx(outputs, stores));
    const key = identify(model, packed);
    const load = (): Promise<Session> =>
      stores === weights
        ? this.load(model, packed)
        : this.loadChecked(model, () => lowerToOnnx(outputs, weights));
    const shared = this.sessions.get(key) ?? { model, loading: load(), holders: 0 };
    this.sessions.set(key, shared);
    // Count before waiting, so that another dispose cannot end the session.
    shared.holders += 1;
    try {
      const program: OnnxProgram = new OnnxProgram(
        await shared.loading,
        shared.model,
        this.preparation,
        () => {
          this.programs.delete(program);
          shared.holders -= 1;
          if (shared.holders === 0) this.sessions.delete(key);
          return shared.holders === 0;
        },
      );
      this.programs.add(program);
      return program;
    } catch (cause) {
      // The next caller tries again.
      if (this.sessions.get(key) === shared) this.sessions.delete(key);
      throw cause;
    }
  }

  private refuseWhenDisposed(): void {
    if (!this.isDisposed) return;
    throw new MistletoeError('runtime', 'The runtime was asked for a program after it was disposed of.');
  }

  private async chooseWeights(
    outputs: NamedTensors,
    weights: readonly WeightStore[],
    options: CompileOptions,
  ): Promise<{ readonly stores: readonly WeightStore[]; readonly packed: boolean }> {
    if (options.packed !== true) return { stores: weights, packed: false };
    if (this.quantizedWeights !== undefined) {
      const stores = await this.quantizedWeights.find(outputs, weights);
      return { stores: [...stores, ...weights], packed: true };
    }
    const products = [...listProducts(outputs).values()];
    const bytes = products.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    if (bytes <= this.packedWeightLimit) return { stores: weights, packed: true };
    const { stores, unpackedBytes } = await this.packedWeights.find(outputs, weights);
    if (unpackedBytes > this.packedWeightLimit) return { stores: weights, packed: false };
    return { stores: [...stores, ...weights], packed: true };
  }

  private async loadChecked(model: LoweredModel, lowerPlain: () => LoweredModel): Promise<Session> {
    return new CheckedSession(await this.load(model, true), () => this.load(lowerPlain(), true));
  }

  private async load(model: LoweredModel, packed: boolean): Promise<Session> {
    const options: SessionRequest = {
      threads: this.threads,
      binding: this.binding,
      signature: {
        inputs: model.inputs.map(({ name }) => inputName(name)),
        outputs: [...model.outputs.keys()].map(outputName),
        updates: model.updates,
      },
      configuration: {
        // Drafter and target take turns: a spinning pool would steal the other's core.
        'session.force_spinning_stop': '1',
        ...(model.folder === undefined ? {} : mappingFrom(model.folder)),
        ...(packed ? {} : { 'session.disable_prepacking': '1' }),
        // Otherwise ONNX Runtime would keep the weights in float32.
        ...(model.widensWeights && !packed
          ? { 'optimization.disable_specified_optimizers': 'ConstantFolding;CommonSubexpressionElimination' }
          : {}),
      },
    };
    const externalData = model.externalFiles.flatMap(({ location: path, source: data }) =>
      typeof data === 'string' ? [] : [{ path, data }],
    );
    try {
      return await this.createSession(
        model.bytes,
        externalData.length === 0 ? options : { ...options, externalData },
      );
    } catch (cause) {
      throw new MistletoeError('runtime', `ONNX Runtime refused the program: ${describeCause(cause)}`, {
        cause,
      });
    }
  }

  private async createSession(model: Uint8Array, options: SessionRequest): Promise<Session> {
    // Connections get their turn before a long load, too.
    await setImmediate();
    return this.preparation.blocking(() => sessionFactory.create(model, options));
  }

  async dispose(): Promise<void> {
    this.isDisposed = true;
    await Promise.allSettled([...this.sessions.values()].map(({ loading }) => loading));
    for (const program of this.programs) await program.dispose();
  }
}

function checkThreads(threads: number): number {
  if (Number.isInteger(threads) && threads >= 1 && threads <= maxThreads) return threads;
  throw new MistletoeError(
    'usage',
    `${threads} threads were asked for; a whole number from 1 to ${maxThreads} was expected.`,
    { hint: 'Leave the number out to use every processor of this machine.' },
  );
}

function identify(model: LoweredModel, packed: boolean): string {
  const hash = createHash('sha256').update(model.bytes).update(String(packed));
  for (const { source } of model.externalFiles) {
    // Weights in memory have no name, so they are identified by object.
    hash.update(typeof source === 'string' ? source : randomUUID());
  }
  return hash.digest('hex');
}
