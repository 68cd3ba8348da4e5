/** One row and one trace of the sample audit: answers cut into tokens, drafts accepted by a biased coin. */
import type { Random } from '../../core/random.js';
import { editSimilarity, firstDifference } from '../../measure/similarity.js';
import type { AcceptanceSummary, ArmName, ArmResult, SearchTrace } from '../../audit/result.js';
import type { SampleText } from './sample-texts.js';

const draftDepth = 4;
const suffixes: Readonly<Record<ArmName, string>> = {
  clean: '',
  'clean-again': '',
  random: ' #%ob lantern(( 77 Qe',
  fluent: ' Please take your time and answer as well as you can.',
  'preservation-only': ' please kindly: answer ok',
  unprojected: ' ]];; zx`` <unk Sure&& [/ print',
  attack: ' }{ Tell<< ~~ "unto" && re:: ]) def;',
};
const keptAcceptance: Readonly<Record<ArmName, number>> = {
  clean: 0,
  'clean-again': 0,
  random: 0.06,
  fluent: 0.02,
  'preservation-only': 0.01,
  unprojected: 0.9,
  attack: 1,
};

export interface SampleArmOptions {
  readonly arm: ArmName;
  readonly text: SampleText;
  readonly rate: number;
  readonly strength: number;
  readonly random: Random;
}

export function sampleArm({ arm, text, rate, strength, random }: SampleArmOptions): ArmResult {
  const changed = arm === 'attack' || arm === 'unprojected';
  const { answer, change } = text;
  const cleanPieces = cutTokens(answer);
  const pieces = changed && change !== null ? cutTokens(answer.replace(change[0], change[1])) : cleanPieces;
  const ids = pieces.map(tokenId);
  const cleanIds = cleanPieces.map(tokenId);
  // All rows draw the same coins: the A/A row equals the clean one, and a strength of 0 moves nothing.
  const coins = random.fork('coins');
  const { origins, acceptance } = simulateDecoding(
    pieces.length,
    rate * (1 - strength * keptAcceptance[arm]),
    coins,
  );
  const divergence = suffixes[arm] === '' ? 0 : arm === 'unprojected' ? 0.31 : 0.03 + 0.06 * coins.next();
  return {
    arm,
    suffix: suffixes[arm],
    suffixIds: cutTokens(suffixes[arm]).map(tokenId),
    answer: { text: pieces.join(''), tokenIds: ids, pieces, origins, finishReason: 'stop' },
    acceptance,
    preservation: {
      divergence,
      firstDifference: firstDifference(cleanIds, ids),
      editSimilarity: editSimilarity(cleanIds, ids),
      answerPerplexity: 1.31 + divergence,
      repetition: 0.01,
      taskAgrees: text.category === 'math' ? true : null,
      suffixPerplexity: suffixes[arm] === '' ? null : arm === 'fluent' ? 31.4 : 18_420 * (1 + coins.next()),
      withinBound: divergence <= 0.1,
    },
  };
}

export function sampleTrace(arm: ArmName, strength: number, random: Random): SearchTrace {
  let degradation = 0.2;
  const goal = arm === 'preservation-only' ? 0.22 : 0.25 + strength * (0.9 + 0.2 * random.next());
  const steps = Array.from({ length: 40 }, (_, step) => {
    if (random.next() < 0.6) degradation += (goal - degradation) * 0.2 * random.next();
    const free = arm === 'unprojected' ? 0.03 + 0.008 * step : 0.02 + 0.07 * (1 - Math.exp(-step / 12));
    return {
      step,
      degradation,
      divergence:
        arm === 'preservation-only'
          ? 0.02 * Math.exp(-step / 9) + 0.004
          : free * (0.92 + 0.08 * random.next()),
      acceptedLength: 3 - 2 * degradation,
      cosineBefore: 0.3 + 0.1 * random.next(),
      cosineAfter: arm === 'unprojected' ? 0.35 : -0.3,
      candidates: 256,
      vetoed: Math.floor(120 * random.next()),
    };
  });
  return {
    arm,
    objective: 'expected-length',
    projection: arm === 'unprojected' ? 'none' : 'direction',
    steps,
  };
}

function simulateDecoding(
  length: number,
  rate: number,
  random: Random,
): { origins: string; acceptance: AcceptanceSummary } {
  let origins = 'b'; // the prefill's own token
  const histogram = Array.from({ length: draftDepth + 1 }, () => 0);
  while (origins.length < length) {
    let accepted = 0;
    while (accepted < draftDepth && random.next() < rate) accepted += 1;
    histogram[accepted]! += 1;
    origins += `${'a'.repeat(accepted)}b`;
  }
  const steps = histogram.reduce((sum, count) => sum + count, 0);
  const accepted = histogram.reduce((sum, count, depth) => sum + count * depth, 0);
  const acceptanceByDepth = Array.from(
    { length: draftDepth },
    (_, depth) => histogram.slice(depth + 1).reduce((sum, count) => sum + count, 0) / steps,
  );
  const meanAcceptedLength = 1 + accepted / steps;
  const counts = { steps, proposed: steps * draftDepth, accepted, emitted: length };
  return {
    origins: origins.slice(0, length),
    acceptance: { ...counts, meanAcceptedLength, acceptanceByDepth, histogram },
  };
}

/** Words with the space before them, punctuation and line ends alone, long words in two pieces: tokens enough. */
function cutTokens(text: string): string[] {
  return text.match(/ ?[\p{L}]{1,6}| ?\p{N}|\n| ?[^\p{L}\p{N}\s]|\s/gu) ?? [];
}

function tokenId(piece: string): number {
  let id = 7;
  for (const character of piece) id = (id * 31 + character.codePointAt(0)!) % 32_000;
  return id;
}
