/** The options that change a preset, each with the values that the presets give it. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { objectiveNames } from '../audit/search/objectives.js';
import { projectionKinds } from '../audit/search/projection.js';
import type { AuditSettings, PresetName } from '../audit/settings.js';
import { presets } from '../audit/settings.js';
import type { KeepRule } from '../measure/kept-class.js';
import { keepRules } from '../measure/kept-class.js';
import { number, wholeNumber } from './option-values.js';

const count = wholeNumber(1);

export function addSettings(command: Command): void {
  command
    .optionsGroup(`How to search (each overrides the preset; in brackets: ${presetNames.join(', ')}):`)
    .addOption(
      new Option('--preset <name>', 'quick is a demonstration, thorough a night, paper the published setting')
        .choices(presetNames)
        .default('standard'),
    )
    .option('--suffix-length <tokens>', describe('length of the suffix', 'suffixLength'), count)
    .option(
      '--window <tokens>',
      describe('answer positions that the search looks at, at most', 'window'),
      count,
    )
    .option(
      '--shortest-answer <tokens>',
      describe('pass over prompts whose clean answer is shorter', 'shortestAnswer'),
      count,
    )
    .option('-n, --max-new-tokens <count>', describe('length of the measured answers', 'maxNewTokens'), count)
    .option(
      '--temperature <number>',
      describe('of target and drafter; 0 is greedy', 'temperature'),
      number({ least: 0, expected: 'a number of 0 or more' }),
    )
    .option(
      '--epsilon <nats>',
      describe('veto: most mean divergence of the target’s distribution', 'epsilon'),
      number({ above: 0, expected: 'a number above 0' }),
    )
    .addOption(
      new Option(
        '--keep <class>',
        describe('what must stay of the answer: similar means identical or edit similarity of 0.9', 'keep'),
      )
        .choices([...keepRules, 'law'])
        .argParser(parseKeep),
    )
    .addOption(
      new Option(
        '--divergence <direction>',
        describe('which distribution is the reference', 'divergence'),
      ).choices(['clean-to-suffixed', 'suffixed-to-clean']),
    )
    .addOption(
      new Option(
        '--search <kind>',
        describe(
          'how the attack finds its way: along gradients, or random changes, for drafters without any',
          'search',
        ),
      ).choices(['gradient', 'random']),
    )
    .addOption(
      new Option(
        '--objective <name>',
        'what the search drives up [margin; total-variation above temperature 0; paper: surprisal]',
      ).choices(objectiveNames),
    )
    .option(
      '--draft-depth <levels>',
      describe('levels that margin and expected-length look ahead', 'draftDepth'),
      count,
    )
    .addOption(
      new Option('--projection <kind>', describe('what is taken out of the gradient', 'projection')).choices(
        projectionKinds,
      ),
    )
    .option(
      '--lambda <weight>',
      describe('of the direction', 'lambda'),
      number({ least: 0, expected: 'a number of 0 or more' }),
    )
    .option('--steps <count>', describe('steps of a search', 'steps'), count)
    .option('--candidates <count>', describe('suffixes tried in each step', 'candidates'), count)
    .option('--top-tokens <count>', describe('tokens considered at a position', 'topTokens'), count)
    .option('--moves <count>', describe('most tokens that a candidate changes', 'moves'), count)
    .option('--merges <count>', describe('most edits joined in a step; 1 joins none', 'merges'), count)
    .option('--starts <count>', describe('random suffixes to begin with', 'starts'), count)
    .option('--finalists <count>', describe('suffixes decoded at the end', 'finalists'), count)
    .option('--patience <steps>', describe('steps without gain before the next start', 'patience'), count)
    .option(
      '--repeats <seeds>',
      describe('searches on each prompt, each with its own seed', 'repeats'),
      count,
    )
    .option(
      '--random-draws <count>',
      describe('random suffixes measured on each prompt', 'randomDraws'),
      count,
    )
    .option(
      '--control-searches',
      describe('also search for preservation alone, and without projection', 'controlSearches'),
    )
    .option('--allow-non-ascii', 'let suffixes have any printable text')
    .addOption(new Option('--chat', 'through the chat template (default)').conflicts('raw'))
    .option('--raw', 'prompts as they are, without the chat template');
}

const presetNames = Object.keys(presets) as PresetName[];

/** The text with the value of every preset, or the one value that they share. */
function describe(text: string, name: keyof AuditSettings): string {
  const values = presetNames.map((preset) => String(presets[preset][name]));
  return `${text} [${new Set(values).size === 1 ? values[0]! : values.join(', ')}]`;
}

/** `law` is an older word for it. */
function parseKeep(value: string): KeepRule {
  const rule = keepRules.find((known) => known === value || (value === 'law' && known === 'distribution'));
  if (rule !== undefined) return rule;
  throw new InvalidArgumentError(`Allowed choices are ${keepRules.join(', ')}.`);
}
