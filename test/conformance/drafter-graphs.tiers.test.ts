/**
 * A drafter exists twice: as a session that decodes and as a graph that gradients flow through. Both must be the same
 * drafter, at every depth: along known tokens the graph's logits are those that the session gives.
 */
import { outputsFor, statesOf } from '../../src/draft/joined/target-states.js';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { buildForcedPass, embedIds } from '../../src/audit/search/forced-pass.js';
import { passInputs, readPromptState } from '../../src/audit/search/prompt-state.js';
import { prefill } from '../../src/decode/prompt-reading.js';
import { floatsOf, int32 } from '../../src/runtime/program.js';
import { byTier, casesOfTier } from '../support/tier.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants, oneOfEachSystem } from '../support/tiny-drafters.js';
import type { TinyPair } from '../support/tiny-pair.js';
import { randomTokens, TinyModels } from '../support/tiny-pair.js';
import { levelsIn } from '../support/level-sessions.js';

const models = new TinyModels(tiny);
afterAll(() => models.dispose());
const { vocabularySize } = tiny;
const depth = 4;
const window = 8;

/** A prompt that the caches hold, rows that lead to the answer, and the answer itself. */
interface Text {
  readonly prompt: readonly number[];
  readonly lead: readonly number[];
  readonly answer: readonly number[];
}

/** [depth][row] -> [draft vocabulary] */
async function scoreByGraph({ target, drafter }: TinyPair, { prompt, lead, answer }: Text) {
  const pass = buildForcedPass({ target, drafter, window, embedWith: embedIds(), depth });
  const outputs = Object.fromEntries(pass.draftLogits.map((logits, level) => [`level${level}`, logits]));
  const stores = [target.weights, ...drafter.graph!.weights.filter((store) => store !== target.weights)];
  const program = await target.runtime.compile(outputs, stores);
  const state = await readPromptState({ target, drafter }, prompt);
  const tokens = [state.lastToken, ...lead, ...answer.slice(0, -1)];
  const given = {
    tokens: int32(tokens, [1, tokens.length]),
    ...passInputs(state, { target, drafter }, tokens.length),
  };
  const needed = new Set(program.inputs.map(({ name }) => name));
  const result = await program.run(
    Object.fromEntries(Object.entries(given).filter(([name]) => needed.has(name))),
  );
  return Object.keys(outputs).map((name) => {
    const all = floatsOf(result, name);
    const [, rows, width] = result[name]!.shape as [number, number, number];
    return Array.from({ length: rows }, (_, row) => all.subarray(row * width, (row + 1) * width));
  });
}

/** The same by one session that drafts along the answer from every position, beside nodes that lead astray. */
async function scoreBySession({ target, drafter }: TinyPair, { prompt, lead, answer }: Text) {
  const ids = [...prompt, ...lead, ...answer];
  const want = outputsFor(drafter);
  const pass = (await prefill(target, target.createCache(), ids, { want, taps: drafter.taps }))!;
  const states = statesOf(target.runtime, drafter, pass);
  const session = drafter.startSession();
  const scores: Float32Array[][] = Array.from({ length: depth }, () => []);
  let heard = 0;
  for (let row = 0; row + 1 < window; row++) {
    const end = prompt.length + lead.length + row;
    session.observe({
      tokens: Int32Array.from(ids.slice(heard, end)),
      states: states?.rows(heard, end - heard),
      next: ids[end]!,
    });
    heard = end;
    const draft = { tokens: [ids[end]!], parents: [-1], depths: [0] };
    let nodes = [0];
    for (let level = 0; level < depth && row + 1 + level < window; level++) {
      const expanded = await levelsIn(session)!.expand(draft, nodes, 'logits');
      scores[level]!.push(expanded.logits(nodes.length - 1));
      const right = ids[end + level + 1]!;
      const astray = (right + 1) % vocabularySize;
      nodes = [astray, right].map((token) => {
        draft.parents.push(nodes.at(-1)!);
        draft.depths.push(level + 1);
        return draft.tokens.push(token) - 1;
      });
    }
  }
  return scores;
}

const cases = casesOfTier(drafterVariants, (variant) => oneOfEachSystem.includes(variant));
describe.each(cases)('$name', (variant) => {
  let pair: TinyPair;
  beforeAll(async () => {
    pair = await models.load(variant.write(models.freshFolder(), tiny));
  });

  it.each([
    ...byTier({ quick: [{ promptLength: 1, leadLength: 0 }], full: [] }),
    { promptLength: 11, leadLength: 3 },
  ])('as graph and as session, prompt $promptLength and lead $leadLength', async (lengths) => {
    const seed = `${lengths.promptLength} ${lengths.leadLength}`;
    const text = {
      prompt: randomTokens(`prompt ${seed}`, lengths.promptLength, vocabularySize),
      lead: randomTokens(`lead ${seed}`, lengths.leadLength, vocabularySize),
      answer: randomTokens(`answer ${seed}`, window, vocabularySize),
    };
    const byGraph = await scoreByGraph(pair, text);
    const bySession = await scoreBySession(pair, text);
    expect(byGraph.map((rows) => rows.length)).toEqual([7, 6, 5, 4]);
    expect(bySession.map((rows) => rows.length)).toEqual([7, 6, 5, 4]);
    const { targetTokens } = pair.drafter.graph!;
    byGraph.forEach((rows, level) => {
      rows.forEach((logits, row) => {
        const whole = new Float32Array(vocabularySize).fill(-Infinity);
        logits.forEach((logit, token) => (whole[targetTokens?.[token] ?? token] = logit));
        const place = `level ${level}, row ${row}`;
        bySession[level]![row]!.forEach((logit, token) => {
          if (Number.isFinite(logit)) expect(whole[token], place).toBeCloseTo(logit, 4);
          else expect(whole[token], place).toBe(-Infinity);
        });
      });
    });
  });
});
