/** Passes that start before the host knows their tokens, on an emulated GPU: the answers of passes that wait. */
import { setImmediate } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { Engine } from '../../src/decode/engine.js';
import { always, type DraftChoice, type PolicyChooser } from '../../src/decode/policies/policy-chooser.js';
import { decodePlain } from '../../src/decode/generate.js';
import { type GenerationRequest } from '../../src/decode/request.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { joinDrafters } from '../../src/draft/joined/joined.js';
import { ngram } from '../../src/draft/ngram/ngram.js';
import type { Drafter } from '../../src/draft/drafter.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import type { Device } from '../../src/runtime/cuda/driver/device.js';
import { createEmulatedDevice } from '../support/emulated-device.js';
import { describeEmulated } from '../support/emulated-suite.js';
import { tiny, writeDecoder } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';

const sizes = { ...tiny, layerCount: 2, contextLength: 32 };
const prompt = randomTokens('ahead', 8, sizes.vocabularySize);

/** Counts uploads (every pass has one), those while a download is on its way, and recordings. */
function watch(device: Device) {
  const seen = { passes: 0, ahead: 0, recordings: 0 };
  let downloads = 0;
  const watched: Device = {
    ...device,
    upload(to, values) {
      seen.passes += 1;
      if (downloads > 0) seen.ahead += 1;
      device.upload(to, values);
    },
    record(work) {
      seen.recordings += 1;
      return device.record(work);
    },
    async download(from, into) {
      downloads += 1;
      await device.download(from, into);
      await setImmediate(); // as if the GPU took its time
      downloads -= 1;
    },
  };
  return { seen, device: watched };
}

async function load(keepsTokens: boolean) {
  const { seen, device } = watch(createEmulatedDevice());
  const runtime = Object.assign(createCudaRuntime(device, { productType: 'float32' }), { keepsTokens });
  const models = new TinyModels(sizes, runtime);
  const { target } = await models.loadTarget();
  const small = writeDecoder(models.freshFolder(), { ...sizes, layerCount: 1 });
  return { models, target, seen, drafter: await models.loadDrafter(small, target) };
}

const request = (changes: Partial<GenerationRequest> = {}): GenerationRequest => ({
  ...{ promptIds: prompt, maxNewTokens: 12, sampling: { temperature: 0 }, seed: 1, stopIds: [], ...changes },
});

const plain = (target: CausalModel, changes?: Partial<GenerationRequest>) =>
  decodePlain(target, request(changes));

const draft = (target: CausalModel, drafter: Drafter, changes?: Partial<GenerationRequest>) =>
  decodeSpeculative(target, drafter, {
    ...request(changes),
    policy: always(resolveText('chain:3', drafter)),
  });

describeEmulated('a pass that starts ahead', () => {
  it('reads the tokens that the pass before chose', async () => {
    const [waiting, early] = [await load(false), await load(true)];
    const expected = await plain(waiting.target);
    expect(waiting.seen.ahead).toBe(0);
    expect((await plain(early.target)).tokenIds).toEqual(expected.tokenIds);
    // Of 11 passes, the first follows the prompt, whose token the host reads.
    expect(early.seen.ahead).toBeGreaterThanOrEqual(10);

    const drafted = await draft(waiting.target, waiting.drafter);
    expect(waiting.seen.ahead).toBe(0);
    const before = early.seen.ahead;
    const { tokenIds, steps, acceptance } = await draft(early.target, early.drafter);
    expect(tokenIds).toEqual(expected.tokenIds);
    expect(acceptance).toEqual(drafted.acceptance);
    expect(early.seen.ahead - before).toBeGreaterThanOrEqual(
      steps.filter(({ proposed }) => proposed > 0).length,
    );
    await waiting.models.dispose();
    await early.models.dispose();
  });

  it('ends where an answer ends', async () => {
    const { models, target, drafter } = await load(true);
    const { tokenIds } = await plain(target);
    const stopIds = [tokenIds[4]!];
    const stop = tokenIds.indexOf(stopIds[0]!) + 1;
    expect(await plain(target, { stopIds })).toMatchObject({ finishReason: 'stop' });
    expect((await plain(target, { stopIds })).tokenIds).toEqual(tokenIds.slice(0, stop));
    expect((await draft(target, drafter, { stopIds })).tokenIds).toEqual(tokenIds.slice(0, stop));
    const full = await plain(target, { maxNewTokens: 100 });
    expect(full.finishReason).toBe('context');
    // The last token has no place, but it is known.
    expect(full.tokenIds).toHaveLength(sizes.contextLength - prompt.length + 1);
    expect((await draft(target, drafter, { maxNewTokens: 100 })).tokenIds).toEqual(full.tokenIds);
    const abort = new AbortController();
    const onToken = (): void => {
      abort.abort();
    };
    const aborted = await plain(target, { signal: abort.signal, onToken });
    expect(aborted).toMatchObject({ finishReason: 'aborted', tokenIds: tokenIds.slice(0, 2) });
    await models.dispose();
  });

  it('starts for the drafter of a hybrid, and waits for lookups', async () => {
    const { models, target, drafter, seen } = await load(true);
    const promptIds = [...prompt, ...prompt];
    const expected = await plain(target, { promptIds });
    const hybrid = joinDrafters([ngram.create('ngram:1,16', target), drafter], target.runtime);
    const before = seen.ahead;
    expect((await draft(target, hybrid, { promptIds })).tokenIds).toEqual(expected.tokenIds);
    expect(seen.ahead).toBeGreaterThan(before);
    for (const source of ['lookup', undefined] as const) {
      const chosen = { policy: resolveText('chain:3', drafter), source };
      const policy = { chainLengths: [3], choose: () => chosen, learn: () => undefined };
      const { tokenIds } = await decodeSpeculative(target, hybrid, { ...request({ promptIds }), policy });
      expect(tokenIds).toEqual(expected.tokenIds);
    }
    await models.dispose();
  });

  it.each(['draft model', 'EAGLE, safetensors, without bias'])(
    'takes turns with drafts: %s',
    async (name) => {
      const { models, target, seen } = await load(true);
      const variant = drafterVariants.find((each) => each.name === name)!;
      const drafter = await models.loadDrafter(variant.write(models.freshFolder(), sizes), target);
      const expected = await plain(target, { maxNewTokens: 100 });
      const chain = { policy: resolveText('chain:2', drafter) };
      for (const period of [2, 3]) {
        const [learned, before] = [[] as DraftChoice[], seen.ahead];
        let steps = 0;
        const policy: PolicyChooser = {
          chainLengths: [2],
          choose: () => (steps++ % period === period - 1 ? chain : { policy: undefined }),
          learn: (choice) => learned.push(choice),
        };
        const found = await decodeSpeculative(target, drafter, { ...request({ maxNewTokens: 100 }), policy });
        expect(found.tokenIds).toEqual(expected.tokenIds);
        expect(found.finishReason).toBe('context');
        expect(seen.ahead - before).toBeGreaterThan(5);
        // A plain step that was started in vain is a step, but nobody chose it.
        const chosen = learned.filter((choice) => choice === chain).length;
        expect(found.steps.length - learned.length).toBeLessThanOrEqual(chosen + 1); // the last may end the answer
        expect(found.targetPasses).toBe(found.steps.length);
      }
      await models.dispose();
    },
  );

  it('waits while other sequences are there', async () => {
    const { models, target, drafter, seen } = await load(true);
    const other = randomTokens('other', 5, sizes.vocabularySize);
    const alone = [await plain(target), await plain(target, { promptIds: other, maxNewTokens: 5 })];
    const engine = new Engine();
    const before = seen.ahead;
    const together = await Promise.all([
      engine.run(() => decodePlain(target, request({ engine }))),
      engine.run(() => draft(target, drafter, { promptIds: other, maxNewTokens: 5, engine })),
    ]);
    expect(together.map(({ tokenIds }) => tokenIds)).toEqual(alone.map(({ tokenIds }) => tokenIds));
    // The longer one goes on alone.
    expect(seen.ahead).toBeGreaterThan(before);
    await models.dispose();
  });

  it('replays the recordings of requests before it, and says which steps had to be prepared', async () => {
    const { models, target, seen, drafter } = await load(true);
    const ask = async (): Promise<readonly boolean[]> => {
      await plain(target);
      const { steps } = await draft(target, drafter);
      return steps.map(({ isCold }) => isCold === true);
    };
    expect(await ask()).toContain(true);
    // The first requests find other memory free than later ones.
    for (let round = 0; round < 2; round++) await ask();
    const { recordings } = seen;
    expect(recordings).toBeGreaterThan(0);
    for (let round = 0; round < 3; round++) expect(await ask()).not.toContain(true);
    expect(seen.recordings).toBe(recordings);
    await models.dispose();
  });
});
