/** Suffixes beyond the prompt and the drafter that they were found on. */
import { createRandom } from '../core/random.js';
import { always, decodeSpeculative } from '../decode/speculative.js';
import type { ResolvedPolicy } from '../draft/grow-tree.js';
import type { Target } from '../decode/target.js';
import type { Drafter } from '../draft/drafter.js';
import { testSignedRanks } from '../measure/wilcoxon.js';
import type { Prompt } from '../text/prompt-set.js';
import type { AuditPrompt } from './audit-prompt.js';
import { joinPrompt, preparePrompt } from './audit-prompt.js';
import { drawRandomSuffix } from './controls.js';
import type { DrafterAudit } from './drafter-audit.js';
import { createObjective, parseObjective } from './objectives.js';
import { parseProjection } from './projection.js';
import { Interrupted } from './prompt-audit.js';
import { readPromptState } from './prompt-state.js';
import type { DrafterResult, TransferMatrix, UniversalResult, UniversalSplit } from './result.js';
import type { RunFolder } from './run-folder.js';
import { Scorer } from './scoring.js';
import { searchSuffix } from './search.js';
import { compileSearch } from './search-programs.js';
import { combineScorers } from './universal.js';

export interface LoadedDrafter {
  readonly id: string;
  readonly drafter: Drafter;
  readonly policy: ResolvedPolicy;
}

interface Counts {
  readonly accepted: number;
  readonly steps: number;
}

const pooled = (counts: readonly Counts[]): number => {
  const steps = counts.reduce((total, count) => total + count.steps, 0);
  return steps === 0 ? 1 : 1 + counts.reduce((total, count) => total + count.accepted, 0) / steps;
};

const decodeCounts = async (
  target: Target,
  { drafter, policy }: Omit<LoadedDrafter, 'id'>,
  promptIds: readonly number[],
  maxNewTokens: number,
): Promise<Counts> => {
  target.model.setTaps(drafter.taps);
  const { acceptance } = await decodeSpeculative(target.model, drafter, {
    promptIds,
    maxNewTokens,
    sampling: { temperature: 0 },
    seed: 0,
    stopIds: target.stopIds,
    policy: always(policy),
  });
  return { accepted: acceptance.accepted, steps: acceptance.steps };
};

/** Every suffix found on one drafter, measured on all of them. */
export async function measureTransfer(
  folder: RunFolder,
  target: Target,
  drafters: readonly LoadedDrafter[],
  results: readonly DrafterResult[],
  prepare: (promptId: string) => Promise<AuditPrompt>,
): Promise<TransferMatrix> {
  const clean: number[] = [];
  const attacked: number[][] = drafters.map(() => []);
  for (const [column, measured] of drafters.entries()) {
    const own = results.find(({ drafter }) => drafter === measured.id)!;
    clean.push(
      pooled(
        own.prompts.flatMap(({ arms }) =>
          arms.filter(({ arm }) => arm === 'clean').map(({ acceptance }) => acceptance),
        ),
      ),
    );
    for (const [row, { id }] of drafters.entries()) {
      const source = results.find(({ drafter }) => drafter === id)!;
      const counts: Counts[] = [];
      for (const { promptId, arms } of source.prompts) {
        const attack = arms.find(({ arm }) => arm === 'attack');
        if (attack === undefined) continue;
        const key = `transfer/${id}/${measured.id}/${promptId}`;
        if (!folder.has(key)) {
          const promptIds = joinPrompt(await prepare(promptId), attack.suffixIds);
          folder.complete(
            key,
            await decodeCounts(target, measured, promptIds, attack.answer.tokenIds.length),
          );
        }
        counts.push(folder.get(key) as Counts);
      }
      attacked[row]![column] = pooled(counts);
    }
  }
  return { drafters: drafters.map(({ id }) => id), attacked, clean };
}

/** One suffix searched on two thirds of the prompts, measured on them and on the rest. */
export async function searchUniversal(
  audit: DrafterAudit,
  policy: ResolvedPolicy,
): Promise<UniversalResult | undefined> {
  const key = `${audit.id}/universal`;
  if (!audit.folder.has(key)) audit.folder.complete(key, (await runUniversal(audit, policy)) ?? null);
  return (audit.folder.get(key) as UniversalResult | null) ?? undefined;
}

async function runUniversal(
  audit: DrafterAudit,
  policy: ResolvedPolicy,
): Promise<UniversalResult | undefined> {
  const { target, drafter, request, allowed, id } = audit;
  const { settings, seed } = request;
  const models = { target: target.model, drafter };
  target.model.setTaps(drafter.taps);
  const prepared: AuditPrompt[] = [];
  for (const prompt of request.prompts) {
    try {
      prepared.push(await preparePrompt(target, prompt as Prompt, settings));
    } catch {
      continue; // the prompt's own audit has said why
    }
  }
  if (prepared.length === 0) return undefined;
  const trainCount = Math.max(1, Math.ceil((prepared.length * 2) / 3));
  const programs = await compileSearch(
    models,
    createObjective(parseObjective(settings.objective), Math.min(settings.draftDepth, drafter.maximumDepth)),
    settings,
  );
  const scorers: Scorer[] = [];
  for (const prompt of prepared) {
    scorers.push(
      new Scorer(target, models, programs, prompt, await readPromptState(models, prompt.beforeIds)),
    );
  }
  const random = createRandom(seed, 'universal', id);
  const start = await drawRandomSuffix(target, prepared[0]!, allowed, settings.suffixLength, random);
  const outcome = await searchSuffix(
    {
      scorer: combineScorers(scorers.slice(0, trainCount)),
      allowed,
      starts: [start],
      random,
      onStep: (point) => {
        audit.folder.appendStep({ drafter: id, promptId: 'universal', arm: 'attack', ...point });
        audit.events.onStep?.({ drafter: id, prompt: 'universal', arm: 'attack' }, point, settings.steps);
      },
      ...(audit.signal === undefined ? {} : { signal: audit.signal }),
    },
    { ...settings, projection: parseProjection(settings.projection, settings.lambda), drive: 'degradation' },
  );
  if (outcome.interrupted) throw new Interrupted('The search was interrupted.');
  const [winner] = outcome.best;
  if (winner === undefined) return undefined;
  const measureSplit = async (from: number, to: number): Promise<UniversalSplit> => {
    const clean: Counts[] = [];
    const attacked: Counts[] = [];
    let divergence = 0;
    for (let index = from; index < to; index++) {
      const prompt = prepared[index]!;
      clean.push(
        await decodeCounts(target, { drafter, policy }, joinPrompt(prompt, []), settings.maxNewTokens),
      );
      attacked.push(
        await decodeCounts(
          target,
          { drafter, policy },
          joinPrompt(prompt, winner.suffixIds),
          settings.maxNewTokens,
        ),
      );
      const [score] = await scorers[index]!.score(winner.suffixIds, [
        { suffixIds: winner.suffixIds, first: 0 },
      ]);
      divergence += score!.divergence / (to - from);
    }
    const means = (counts: readonly Counts[]): number[] => counts.map((count) => pooled([count]));
    return {
      n: to - from,
      cleanAcceptedLength: pooled(clean),
      attackedAcceptedLength: pooled(attacked),
      divergence,
      pValue: testSignedRanks(means(attacked), means(clean), 'less').pValue,
    };
  };
  return {
    drafter: id,
    suffix: target.tokenizer.decode(winner.suffixIds),
    trained: await measureSplit(0, trainCount),
    heldOut: trainCount < prepared.length ? await measureSplit(trainCount, prepared.length) : null,
  };
}
