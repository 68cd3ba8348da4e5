/** The rows of a result; `attack` (or `given`) counts only against the others. */
export const arms = [
  'clean',
  'clean-again', // A/A: the clean prompt measured a second time
  'random', // random allowed tokens of the same length, several draws
  'fluent', // ordinary text of the same length
  'undirected', // the search with random numbers in place of gradient and objective, of equal effort
  'preservation-only', // the search with nothing but the preservation loss
  'unprojected', // the search without projection
  'given', // suffixes that the user gave
  'attack',
] as const;
export type ArmName = (typeof arms)[number];

/** Arms whose suffix was searched under the --keep rule; the others measure a suffix whatever it does to the answer. */
export const searchedArms = ['attack', 'unprojected', 'preservation-only', 'undirected'] as const;
export type SearchedArm = (typeof searchedArms)[number];

export const isSearched = (arm: ArmName): arm is SearchedArm =>
  (searchedArms as readonly ArmName[]).includes(arm);

/** What the attack has to beat, each by a paired test over prompts. */
export const controls = ['clean', 'random', 'fluent', 'undirected'] as const;
export type ControlName = (typeof controls)[number];
