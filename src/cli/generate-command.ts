import { type Command, Option } from 'commander';
import { mostNewTokens } from '../core/limits.js';
import { bundledDrafters } from '../decode/bundled-models.js';
import { verificationRules } from '../decode/verification/verification.js';
import {
  addDownload,
  addMachine,
  addSampling,
  addTaps,
  addTemplate,
  createTargetOption,
} from './common-options.js';
import { collect, wholeNumber } from './option-values.js';
import type { CommandContext } from './command-context.js';
import type { GenerateFlags } from './command-flags.js';

export function addGenerateCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('generate')
    .summary('answer prompts with a model')
    .description('Answers one prompt, or every prompt of a file. The text appears while it is generated.')
    .helpOption('-h, --help', 'print this help')
    .optionsGroup('What to run:')
    .addOption(createTargetOption())
    .addOption(new Option('-p, --prompt <text>', 'the prompt; - reads it from stdin').conflicts('prompts'))
    .option('--prompts <file>', 'a file of prompts, .jsonl or .txt, answered one after the other')
    .addOption(
      new Option(
        '--chat',
        'send the prompt through the chat template (the default if the model has one)',
      ).conflicts('raw'),
    )
    .option('--raw', 'send the text as it is, to be continued');
  addTemplate(command).option(
    '-n, --max-new-tokens <count>',
    'generate at most this many tokens',
    wholeNumber(1, mostNewTokens),
    128,
  );
  addSampling(command)
    .option(
      '--seed <number>',
      'the same seed gives the same text; above temperature 0, another drafter or --draft gives other text',
      wholeNumber(0),
      0,
    )
    .addOption(
      new Option('--stop <text>', 'end before this text; may be given several times')
        .argParser(collect)
        .default([], 'none'),
    )
    .optionsGroup('How to draft:')
    .option(
      '-d, --drafter <model>',
      `decode speculatively with this drafter: its folder or its name on the hub; ${bundledDrafters.join(', ')}, which come with the bundled model; or ngram[:MIN,MAX], which looks the last tokens up in the text and fits any model (default: none, plain decoding)`,
    )
    .option(
      '--draft <policy>',
      'how much to draft each step: auto, chain:4, tree:mc_sim_7b_63, tree:FILE.json, dynamic:60,5,10 (default: auto; with a temperature chain:4)',
    )
    .addOption(
      new Option(
        '--verify <rule>',
        'which drafts to keep: greedy and rejection are lossless, typical is lossy (default: greedy; with a temperature rejection)',
      ).choices(Object.keys(verificationRules)),
    );
  addTaps(command)
    .option(
      '--show-drafts',
      'put accepted draft tokens between \u27e8 and \u27e9, for where there is no colour',
    )
    .optionsGroup('Output and machine:')
    .addOption(
      new Option('--format <format>', 'text streams; json prints one object per prompt, each on one line')
        .choices(['text', 'json'])
        .default('text'),
    );
  addMachine(addDownload(command)).addHelpText('after', examples);
  command.action(async (flags: GenerateFlags) => {
    const { runGenerate } = await import('./generate-action.js');
    context.exitCode = await runGenerate(flags, context.terminal);
  });
}

const examples = `
Examples:
  mistletoe generate --prompt "Give me three tips for a good night's sleep."
  mistletoe generate --prompt "Write a story about the sea." --temperature 0.8 --top-p 0.95 --seed 7
  mistletoe generate --raw --prompt "def reverse(text):" --stop "def "
  cat question.txt | mistletoe generate --prompt -
  mistletoe generate --prompts prompts.jsonl --format json > answers.jsonl
  mistletoe generate --prompt "Write a haiku." --drafter eagle3
  mistletoe generate --prompts texts.jsonl --target ./my-model --drafter ngram
  mistletoe generate --target Qwen/Qwen2.5-0.5B-Instruct --download --prompt "Hi"
  mistletoe generate --prompt "Write a haiku." --drafter medusa --draft chain:3 --show-drafts

The text goes to stdout, a line with counts and speed to stderr. Ctrl-C ends the answer and keeps what is there.
`;
