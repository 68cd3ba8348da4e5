import { join } from 'node:path';
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import { MistletoeError } from '../../core/errors.js';
import type { Target } from '../../decode/target.js';
import type { ReadingOptions } from '../../draft/draft-system.js';
import { loadDrafter } from '../../draft/systems.js';
import { adamDefaults } from './adamw.js';
import type { BatchPlan, TextBatch } from '../data/batches.js';
import { readParameters } from './parameters.js';
import { saveDrafter } from './saved-drafter.js';
import { type TrainSettings, objectiveOf } from '../settings.js';
import { StateStore } from './state-store.js';
import { Trainer } from './trainer.js';
import type { LogLine, TrainingProgress } from './training-state.js';
import { freshProgress, loadState, removeUnfinished, saveState, TrainingLog } from './training-state.js';
import { type TrainingEnd, trainSteps } from './training-loop.js';

export interface DrafterTraining {
  readonly target: Target;
  readonly start: string;
  readonly plan: BatchPlan;
  readonly validation: readonly TextBatch[];
  readonly settings: TrainSettings;
  readonly folder: string;
  readonly cache: CacheOptions & ReadingOptions;
  readonly signal?: AbortSignal | undefined;
  readonly onStart?:
    | ((start: { readonly parameterCount: number; readonly update: number }) => void)
    | undefined;
  readonly onLine?: ((line: LogLine) => void) | undefined;
}

export interface TrainedDrafter {
  readonly ended: TrainingEnd;
  readonly progress: TrainingProgress;
  readonly parameterCount: number;
  readonly log: readonly LogLine[];
}

export async function trainDrafter(training: DrafterTraining): Promise<TrainedDrafter> {
  const { target, start, plan, validation, settings, folder, cache, signal } = training;
  const drafter = await loadDrafter(start, { target: target.model, tokenizer: target.tokenizer, ...cache });
  const pair = { target: target.model, drafter };
  const values = await readParameters(drafter);
  const { weightDecay, clip, seed, keepStates } = settings;
  // The run's target and data are fixed, so only the drafter's taps identify the states.
  const store =
    keepStates === 0
      ? undefined
      : StateStore.open(join(folder, 'states.bin'), {
          limitBytes: keepStates,
          identity: `taps ${drafter.taps.join()}`,
          onNotice: cache.onNotice,
        });
  const trainer = await Trainer.create(pair, values, {
    objective: objectiveOf(settings),
    adam: { ...adamDefaults, weightDecay, clip },
    seed,
    store,
    freezeVocabulary: settings.freeze === 'vocabulary',
  });
  const keep = async (name: string): Promise<void> => {
    const values = await trainer.readWeights();
    await saveDrafter({ from: start, to: join(folder, name), values, taps: cache.taps });
  };
  try {
    const stateFile = join(folder, 'state.safetensors');
    removeUnfinished(stateFile);
    const saved = await loadState(stateFile);
    if (saved !== undefined) {
      refuseFurther(stateFile, saved.progress, settings);
      trainer.buffers.restore(saved.values);
    }
    let progress = saved?.progress ?? freshProgress;
    const log = TrainingLog.open(join(folder, 'log.jsonl'), saved?.progress.update);
    const { parameterCount } = drafter;
    training.onStart?.({ parameterCount, update: progress.update });
    const ended = await trainSteps(
      {
        pair,
        trainer,
        settings,
        plan,
        validation,
        signal,
        onLine(line) {
          log.add(line);
          training.onLine?.(line);
        },
        keepBest: () => keep('best'),
        async save(now) {
          log.sync();
          await saveState(stateFile, { progress: now, values: await trainer.buffers.read() });
          progress = now;
        },
        async keepSaved() {
          const { values: whole } = (await loadState(stateFile))!;
          trainer.buffers.write(whole);
          await keep('last');
          return progress.update;
        },
      },
      progress,
    );
    await keep('last');
    if (validation.length === 0) await keep('best');
    return { ended, progress, parameterCount, log: log.lines };
  } finally {
    await trainer.dispose();
    store?.close();
  }
}

/** Such a run could never end. */
function refuseFurther(file: string, { update }: TrainingProgress, { steps }: TrainSettings): void {
  if (update <= steps) return;
  throw new MistletoeError(
    'checkpoint',
    `${file} is the state after update ${update}, but the run has ${steps} of them.`,
    {
      hint: 'Put the state of this run back, or remove it to begin the run anew with the answers that it has.',
    },
  );
}
