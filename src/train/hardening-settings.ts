/** What a hardening run is set to. */
import { z } from 'zod';
import { presets } from '../audit/settings.js';
import type { AuditSettings } from '../audit/settings.js';

const count = z.int().positive();
const share = z.number().min(0).max(1);

export const hardeningSchema = z.strictObject({
  /** Rounds of attacking and training. */
  rounds: count,
  /** Prompts that are attacked in a round, and suffixes that are kept of each. */
  promptsPerRound: count,
  suffixesPerPrompt: count,
  /** Steps of a search in the first round, and by how much each further round has more: the attacker gains, too. */
  searchSteps: count,
  searchGrowth: z.number().min(1),
  /** In turn, prompt by prompt. */
  objectives: z.array(z.string()).nonempty(),
  suffixLengths: z.array(count).nonempty(),
  /** Updates in a round. */
  stepsPerRound: count,
  /** Share of the texts of an epoch that carry suffixes. */
  suffixedShare: share,
  /** Rounds whose suffixes are trained on; older ones are forgotten. */
  replayRounds: count,
  /** Where suffixes come from: searches, or chance, which is the baseline. */
  source: z.enum(['searched', 'random']),
  seed: z.int(),
});
export type HardeningSettings = z.infer<typeof hardeningSchema>;

export const hardeningDefaults: HardeningSettings = {
  ...{ rounds: 3, promptsPerRound: 32, suffixesPerPrompt: 4 },
  ...{ searchSteps: 24, searchGrowth: 1.5 },
  // An audit afterwards has other lengths and other objectives to try.
  ...{ objectives: ['margin', 'surprisal'], suffixLengths: [12, 24] },
  ...{ stepsPerRound: 200, suffixedShare: 0.5, replayRounds: 3, source: 'searched', seed: 0 },
};

/** The search on one prompt of a round. */
export function searchSettings(
  { searchSteps, searchGrowth, objectives, suffixLengths, suffixesPerPrompt }: HardeningSettings,
  round: number, // from 0
  place: number, // of the prompt in its round
): AuditSettings {
  return {
    ...presets.quick,
    steps: Math.round(searchSteps * searchGrowth ** round),
    finalists: suffixesPerPrompt,
    objective: objectives[place % objectives.length]!,
    suffixLength: suffixLengths[Math.floor(place / objectives.length) % suffixLengths.length]!,
  };
}
