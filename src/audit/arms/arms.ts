/** The rows of a result. `attack` (or `given`) is compared with the others. */
export const arms = [
  'clean',
  'clean-again', // A/A: the clean prompt measured a second time
  'random', // random allowed tokens of the same length, several draws
  'fluent', // ordinary text of the same length
  'undirected', // the search with random numbers instead of gradient and objective, with equal effort
  'preservation-only', // the search with only the preservation loss
  'unprojected', // the search without projection
  'given', // suffixes from the user
  'attack',
] as const;
export type ArmName = (typeof arms)[number];

/** Arms whose suffix was searched under the --keep rule; the others are measured whatever the suffix does to the answer. */
export const searchedArms = ['attack', 'unprojected', 'preservation-only', 'undirected'] as const;
export type SearchedArm = (typeof searchedArms)[number];

export const isSearched = (arm: ArmName): arm is SearchedArm =>
  (searchedArms as readonly ArmName[]).includes(arm);

/** The controls that the attack must beat, each in a paired test over prompts. */
export const controls = ['clean', 'random', 'fluent', 'undirected'] as const;
export type ControlName = (typeof controls)[number];
