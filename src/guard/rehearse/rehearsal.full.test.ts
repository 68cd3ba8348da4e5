import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { tiny, writeDecoder, writeLetterTokenizer } from '../../../test/support/tiny-checkpoints.js';
import type { TinyPair } from '../../../test/support/tiny-pair.js';
import { randomTokens, TinyModels } from '../../../test/support/tiny-pair.js';
import { createRandom } from '../../core/random.js';
import { rehearse, spoilDrafter } from './rehearsal.js';

describe('a rehearsal', () => {
  const sizes = { ...tiny, contextLength: 128 };
  const models = new TinyModels(sizes);
  let pair: TinyPair;
  const prompts = Array.from({ length: 3 }, (_, index) =>
    randomTokens(`prompt-${index}`, 5, tiny.vocabularySize),
  );

  beforeAll(async () => {
    // The target as its own drafter: every token is accepted, unless it was spoiled.
    const folder = writeDecoder(models.freshFolder(), sizes);
    writeLetterTokenizer(folder, sizes);
    pair = await models.load(folder);
  });
  afterAll(() => models.dispose());

  const short = { newTokens: 54, draftLength: 2, normalRequests: 45, stageRequests: 2 };

  it('shows the cost, keeps the answers, and notices the collapse', async () => {
    const { target: model, drafter } = pair;
    const told: number[] = [];
    const rehearsal = (await rehearse({
      ...{ model, drafter, prompts, ...short, spoiledShares: [0.5, 1] },
      onRequest: (done, total) => {
        told.push(done);
        expect(total).toBe(3 + 45 + 2 * 3);
      },
    }))!;
    expect(rehearsal.usual.meanAcceptedLength).toBeGreaterThan(2.8);
    expect(rehearsal.usual.alerts).toEqual([]);
    expect(rehearsal.breakEven).toBeGreaterThanOrEqual(1);
    const [half, all] = rehearsal.stages;
    expect(half!.meanAcceptedLength).toBeGreaterThan(1.3);
    expect(half!.meanAcceptedLength).toBeLessThan(2.5);
    expect(all!.meanAcceptedLength).toBe(1);
    expect(all!.verdicts.map(({ name }) => name)).toEqual(['collapsed', 'collapsed']);
    expect(rehearsal.areAnswersKept).toBe(true);
    const { draft, verify } = all!.stepMs;
    // Nothing accepted: one token a step, and hardly anything else takes time.
    expect(1000 / all!.tokensPerSecond).toBeGreaterThanOrEqual(draft + verify);
    expect(Math.min(draft, verify)).toBeGreaterThan(0);
    expect(rehearsal.plainTokensPerSecond).toBeGreaterThan(0);
    expect(told).toHaveLength(3 + 45 + 2 * 3);
  });

  it('says when answers are too short to be judged', async () => {
    const { target: model, drafter } = pair;
    await expect(rehearse({ model, drafter, prompts, ...short, newTokens: 12 })).rejects.toThrow(
      'None of 3 prompts',
    );
  });

  it('ends when it is aborted', async () => {
    const { target: model, drafter } = pair;
    const abort = new AbortController();
    const rehearsal = await rehearse({
      ...{ model, drafter, prompts, ...short, signal: abort.signal },
      onRequest: (done) => {
        if (done === 3) abort.abort();
      },
    });
    expect(rehearsal).toBeUndefined();
  });

  it('spoils the share of tokens that it is told to', async () => {
    const { drafter } = pair;
    const spoiled = spoilDrafter(drafter, createRandom(0, 'spoiled'));
    const session = drafter.startSession();
    const other = spoiled.startSession();
    const tokens = Int32Array.from(prompts[0]!);
    for (const each of [session, other]) each.observe({ tokens, states: undefined, next: 1 });
    const expected = await session.draftChain!(3);
    expect(await other.draftChain!(3)).toEqual(expected);
    spoiled.spoiledShare = 1;
    other.observe({ tokens: Int32Array.of(1), states: undefined, next: 1 });
    session.observe({ tokens: Int32Array.of(1), states: undefined, next: 1 });
    const wrong = await other.draftChain!(3);
    (await session.draftChain!(3)).forEach((token, index) => {
      expect(wrong[index]).not.toBe(token);
      expect(wrong[index]).toBeLessThan(tiny.vocabularySize);
    });
    session.close();
    other.close();
  });
});
