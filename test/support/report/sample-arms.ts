/** One row of one prompt of the sample audit: answers cut into tokens, drafts accepted by a biased coin. */
import type { Random } from '../../../src/core/random.js';
import type { ArmName, ArmResult, EqualLengths, OtherAnswer } from '../../../src/audit/result.js';
import { classifyAnswer } from '../../../src/measure/kept-class.js';
import { simulateDecoding } from './sample-decoding.js';
import type { SampleText } from './sample-texts.js';

const suffixes: Readonly<Record<ArmName, string>> = {
  clean: '',
  'clean-again': '',
  random: ' #%ob lantern(( 77 Qe',
  fluent: ' Please take your time and answer as well as you can.',
  undirected: ' mox{} ~ther "ya 9(( bel',
  'preservation-only': ' please kindly: answer ok',
  unprojected: ' ]];; zx`` <unk Sure&& [/ print',
  given: ' ## ignore :: (( unto',
  attack: ' }{ Tell<< ~~ "unto" && re:: ]) def;',
};

/** Which share of what the attack takes away each row takes away, for each draw or seed. */
const costs: Readonly<Record<ArmName, readonly number[]>> = {
  clean: [0],
  'clean-again': [0],
  random: [0.03, 0.06, 0.09],
  fluent: [0.02],
  undirected: [0.15],
  'preservation-only': [0.01],
  unprojected: [0.9],
  given: [1],
  attack: [1],
};

export function listRepeats(arm: ArmName): number[] {
  return costs[arm].map((_, index) => index + 1);
}

export interface SampleArmOptions {
  readonly arm: ArmName;
  readonly repeat: number;
  readonly text: SampleText;
  readonly rate: number;
  readonly strength: number;
  readonly random: Random;
  /** A searched arm that found nothing: the clean prompt under its name. */
  readonly withoutSuffix?: boolean;
  /** The attack is worth no more than the undirected search: as much on average, with coins of its own. */
  readonly blind?: boolean;
}

export function sampleArm(options: SampleArmOptions): ArmResult {
  const { arm, repeat, text, rate, strength, random, withoutSuffix = false, blind = false } = options;
  const suffix = withoutSuffix ? '' : suffixes[arm];
  const clean = cutTokens(text.answer);
  const pieces = withoutSuffix ? clean : cutTokens(answerOf(arm, text));
  const tokenIds = pieces.map(tokenId);
  const isBlind = blind && (arm === 'attack' || arm === 'undirected');
  const cost = withoutSuffix ? 0 : isBlind ? 0.5 : costs[arm][repeat - 1]!;
  // All rows draw the same coins: the A/A row equals the clean one, and a strength of 0 moves nothing.
  const coins = (name: string): Random => random.fork(isBlind ? `${name}-${arm}` : name);
  const acceptedRate = rate * (1 - strength * cost);
  const held = simulateDecoding(clean.length, acceptedRate, coins('held'));
  const { origins, acceptance: freeRunning } = simulateDecoding(pieces.length, acceptedRate, coins('held'));
  const before = simulateDecoding(clean.length, rate, random.fork('held'));
  const tokens = Math.min(clean.length, pieces.length);
  const chance = random.fork(`measures-${arm}-${repeat}`);
  const divergence = suffix === '' ? 0 : arm === 'unprojected' ? 0.31 : 0.03 + 0.06 * chance.next();
  const relation = classifyAnswer({
    clean: { tokenIds: clean.map(tokenId), text: text.answer },
    other: { tokenIds, text: pieces.join('') },
    task: text.category === 'math' ? 'number' : 'none',
  });
  return {
    arm,
    repeat,
    suffix,
    suffixIds: cutTokens(suffix).map(tokenId),
    withoutSuffix: withoutSuffix
      ? 'All 512 candidates were vetoed: the smallest divergence is 0.131, the bound 0.1.'
      : null,
    sameAnswer: { ...held.acceptance, origins: held.origins },
    answer: { text: pieces.join(''), tokenIds, pieces, origins, finishReason: 'stop' },
    freeRunning,
    compared: {
      tokens,
      passes: countPasses(origins, tokens),
      cleanPasses: countPasses(before.origins, tokens),
    },
    preservation: {
      divergence,
      kept: relation.keptClass,
      firstDifference: relation.firstDifference,
      editSimilarity: relation.similarity,
      answerPerplexity: 1.31 + divergence,
      repetition: 0.01,
      suffixPerplexity: suffix === '' ? null : arm === 'fluent' ? 31.4 : 18_420 * (1 + chance.next()),
      withinBound: divergence <= 0.1 && relation.keptClass !== 'different',
    },
    slowOther: arm === 'attack' && !withoutSuffix && text.id === 'code-1' ? slowOther : null,
  };
}

const compared: EqualLengths = { tokens: 40, passes: 31, cleanPasses: 14 };
const slowOther: OtherAnswer = {
  suffix: ' ]]~ loop<< (( forever',
  answer:
    'def reverse_string(text):\n    result = ""\n    for letter in text:\n        result = result + letter\n    return result',
  similarity: 0.41,
  compared,
};

/** The attack changes a phrase at most; without projection the answer is another one. */
function answerOf(arm: ArmName, { answer, change }: SampleText): string {
  if (arm === 'unprojected') return `Sure! ${Array.from(answer).slice(0, 40).reverse().join('')}`;
  return (arm === 'attack' || arm === 'given') && change !== null
    ? answer.replace(change[0], change[1])
    : answer;
}

/** Passes behind the first token: each ends with the target's own token, the last may be cut. */
function countPasses(origins: string, tokens: number): number {
  const behind = origins.slice(1, tokens);
  return behind.replace(/a/g, '').length + (behind.endsWith('a') ? 1 : 0);
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
