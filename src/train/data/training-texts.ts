import { join } from 'node:path';
import type { Target } from '../../decode/target.js';
import type { AnswersProgress } from './answers.js';
import { answerConversations } from './answers.js';
import type { BatchPlan, TextBatch } from './batches.js';
import { planBatches } from './batches.js';
import type { Conversation } from './conversations.js';
import type { Example, ExampleCounts } from './examples.js';
import { countTokens, createExamples, learnAll, refuseUnknownTokens, splitExamples } from './examples.js';
import type { TrainSettings } from '../settings.js';
import { answersFile } from './taken-answers.js';

export interface TrainingTexts {
  readonly conversations: number;
  readonly cutConversations: number;
  readonly training: readonly Example[];
  readonly trainingCounts: ExampleCounts;
  readonly heldOutCounts: ExampleCounts;
  readonly plan: BatchPlan;
  readonly validation: readonly TextBatch[];
}

export interface TextsOptions {
  readonly folder: string;
  readonly signal?: AbortSignal | undefined;
  readonly onAnswers?: ((progress: AnswersProgress) => void) | undefined;
}

/** Undefined if interrupted; answers so far are kept. */
export async function prepareTexts(
  target: Target,
  conversations: readonly Conversation[],
  settings: TrainSettings,
  { folder, signal, onAnswers }: TextsOptions,
): Promise<TrainingTexts | undefined> {
  const { maxNewTokens, temperature, generate, seed, maxTokens } = settings;
  const file = join(folder, answersFile);
  const answers = await answerConversations({
    target,
    conversations,
    maxNewTokens,
    generate,
    seed,
    signal,
    file,
    sampling: { temperature },
    onProgress: onAnswers,
  });
  if (answers.interrupted) return undefined;
  const { examples, counts } = createExamples(answers.conversations, { maxTokens });
  refuseUnknownTokens(examples, target.model.configuration.vocabularySize, file);
  const { training, validation } = splitExamples(examples, { validation: settings.validation, seed });
  const heldOut = validation.slice(0, settings.validationTexts);
  const learnt = settings.learn === 'all' ? training.map(learnAll) : training;
  return {
    conversations: conversations.length,
    cutConversations: answers.cutCount,
    training,
    trainingCounts: { ...counts, ...countTokens(learnt) },
    heldOutCounts: { ...countTokens(heldOut), cut: 0, withoutLearnt: 0 },
    plan: planBatches(learnt, settings),
    validation: listBatches(heldOut, settings),
  };
}

function listBatches(examples: readonly Example[], settings: TrainSettings): readonly TextBatch[] {
  if (examples.length === 0) return [];
  const plan = planBatches(examples, settings);
  return Array.from({ length: plan.batchesPerEpoch }, (_, step) => plan.batchAt(step));
}
