import { type Command, Option } from 'commander';
import { mostNewTokens } from '../core/limits.js';
import { bundledDrafters } from '../decode/bundled-models.js';
import {
  addDownload,
  addLimit,
  addMachine,
  addProgress,
  addSampling,
  addTaps,
  addTemplate,
  createTargetOption,
} from './common-options.js';
import { collect, wholeNumber } from './option-values.js';
import type { CommandContext } from './command-context.js';
import type { BenchFlags } from './command-flags.js';

export function addBenchCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('bench')
    .summary('measure drafters against plain decoding')
    .description(
      'Answers the same prompts by plain decoding and with each drafter, in one process and by turns, and compares: mean accepted length, speed, where the time goes.',
    )
    .helpOption('-h, --help', 'print this help')
    .optionsGroup('What to measure:')
    .addOption(createTargetOption())
    .addOption(
      new Option(
        '-d, --drafter <model>',
        `folder of a drafter or its name on the hub, ${bundledDrafters.join(', ')}, or ngram[:MIN,MAX], which has no weights; may be given several times`,
      )
        .argParser(collect)
        .default([], 'the five bundled drafters'),
    )
    .addOption(
      new Option(
        '--draft <policy>',
        'how much to draft: auto, chain:4, tree:mc_sim_7b_63, dynamic:60,5,10, for all drafters, or NAME=POLICY for the one whose folder is called NAME; may be given several times',
      )
        .argParser(collect)
        .default([], 'auto; with a temperature chain:4'),
    );
  addTaps(command)
    .addOption(
      new Option(
        '-p, --prompts <set>',
        'a .jsonl or .txt file, or mt-bench, humaneval, gsm8k from --prompts-dir; may be given several times',
      )
        .argParser(collect)
        .default([], 'a small set that comes with the package'),
    )
    .option('--prompts-dir <dir>', 'folder with mt_bench.jsonl, humaneval.jsonl, gsm8k.jsonl');
  addTemplate(addLimit(command))
    .option(
      '-n, --max-new-tokens <count>',
      'generate at most this many tokens',
      wholeNumber(1, mostNewTokens),
      96,
    )
    .option(
      '--warmup <count>',
      'answers of each system on each set that are not counted',
      wholeNumber(0, 1000),
      1,
    )
    .option(
      '--concurrency <count>',
      'prompts that are answered at the same time; each gets the answer that it would get alone',
      wholeNumber(1, 256),
      1,
    );
  addSampling(command)
    .option('--seed <number>', 'for drawing tokens and for the bootstrap', wholeNumber(0), 0)
    .optionsGroup('Output and machine:')
    .addOption(
      new Option(
        '--format <format>',
        'markdown prints tables; json one object; jsonl a line per answer while it runs, then the summaries',
      )
        .choices(['markdown', 'json', 'jsonl'])
        .default('markdown'),
    )
    .option('--answers <dir>', 'also write answer files that Spec-Bench’s tools read');
  addMachine(addProgress(addDownload(command))).addHelpText('after', examples);
  command.action(async (flags: BenchFlags) => {
    const { runBench } = await import('./bench-action.js');
    context.exitCode = await runBench(flags, context.terminal);
  });
}

const examples = `
Examples:
  mistletoe bench                                          all bundled drafters on the small prompt set
  mistletoe bench --drafter ./my-eagle3 --target ./my-model --prompts my.jsonl --limit 20
  mistletoe bench -t meta-llama/Llama-3.1-8B-Instruct -d yuhuili/EAGLE3-LLaMA3.1-Instruct-8B --download
  mistletoe bench --prompts-dir ./data -p mt-bench -p humaneval -p gsm8k --limit 20
  mistletoe bench -d models/reference/eagle --draft chain:4 --draft dynamic:60,5,10
  mistletoe bench --draft chain:4 --draft eagle3=chain:6   chain:4 for all but eagle3

Tables go to stdout, progress to stderr. Ctrl-C prints what is finished.
`;
