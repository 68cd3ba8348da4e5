import { type Command, Option } from 'commander';
import { mostNewTokens } from '../core/limits.js';
import { bundledDrafters } from '../decode/bundled-models.js';
import type { CommandContext } from './command-context.js';
import { addDownload, addMachine, addTaps, addTemplate, createTargetOption } from './common-options.js';
import { byteSize, collect, number, wholeNumber } from './option-values.js';
import type { ServeFlags } from './serve-flags.js';

export function addServeCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('serve')
    .summary('answer over HTTP, with OpenAI’s interface')
    .description(
      'Serves a model with OpenAI’s interface (/v1/chat/completions, /v1/completions), speculatively where a drafter is given, many answers at once. Acceptance is told per request and in /metrics as vLLM tells it.',
    )
    .helpOption('-h, --help', 'print this help')
    .optionsGroup('What to run:')
    .addOption(createTargetOption())
    .addOption(
      new Option(
        '-d, --drafter <model>',
        `decode speculatively with this drafter: its folder or its name on the hub, ${bundledDrafters.join(', ')}, or ngram[:MIN,MAX]; may be given several times: the first is used unless a request names another`,
      )
        .argParser(collect)
        .default([], 'none, plain decoding'),
    )
    .option(
      '--draft <policy>',
      'how much to draft each step: auto, chain:4, tree:mc_sim_7b_63, tree:FILE.json, dynamic:60,5,10 (default: auto; with a temperature chain:4)',
    );
  addTaps(command).option(
    '--served-model-name <name>',
    'what requests call the model (default: the name of its folder)',
  );
  addTemplate(command)
    .optionsGroup('When drafts fail:')
    .option(
      '--guarded',
      'within each request, go on with another drafter, then with ngram, then without drafts, where they are not worth it; requests may ask otherwise',
    )
    .option(
      '--slowdown <share>',
      'by which a guarded request may be slower than plain decoding (default: 0.05)',
      number({ above: 0, most: 10, expected: 'a number above 0 and up to 10' }),
    )
    .option(
      '--ladder <names>',
      'drafters in the order in which they follow a request’s own, as eagle3,sps,ngram (default: all that fit, then ngram)',
      (text: string) => text.split(',').map((name) => name.trim()),
    )
    .option(
      '--floor <share>',
      'of steps that accept a draft token at all, in the lowest of usual requests (default: learnt)',
      number({ least: 0, most: 1, expected: 'a number from 0 to 1' }),
    )
    .optionsGroup('Where, and for whom:')
    .option(
      '--host <address>',
      'the address to listen on; others than this machine’s own need keys',
      '127.0.0.1',
    )
    .option('--port <number>', '0 takes any that is free', wholeNumber(0, 65_535), 8000)
    .option(
      '--keys <file>',
      'a file of bearer keys, one a line, each alone or behind a name (default: $MISTLETOE_KEYS or none)',
    )
    .option('--allow-anonymous', 'listen for other machines without keys')
    .optionsGroup('How much:')
    .option('--concurrency <count>', 'answers that are decoded at the same time', wholeNumber(1, 256), 8)
    .option(
      '--max-memory <size>',
      'keys and values of running answers, as 20GB; others wait (default: no bound)',
      byteSize(1),
    )
    .addOption(
      new Option('--max-body <size>', 'of a request').argParser(byteSize(1)).default(4 * 2 ** 20, '4MiB'),
    )
    .option('--max-prompt-tokens <count>', 'of a prompt (default: the model’s context)', wholeNumber(1))
    .option(
      '--max-new-tokens <count>',
      'of an answer (default: the model’s context)',
      wholeNumber(1, mostNewTokens),
    )
    .option('--max-choices <count>', 'answers to one request', wholeNumber(1, 1024), 16)
    .option('--max-queue <count>', 'answers that wait; further requests are sent away', wholeNumber(0), 64)
    .option(
      '--max-seconds <number>',
      'for a request; its answer ends then with what it has',
      number({ above: 0, most: 1e6, expected: 'a number above 0 and up to 1000000' }),
      600,
    )
    .option(
      '--grace <seconds>',
      'answers may go on for so long after Ctrl-C',
      number({ least: 0, most: 1e6, expected: 'a number from 0 to 1000000' }),
      10,
    )
    .optionsGroup('What is told:')
    .addOption(
      new Option(
        '--per-request-spec-decode-metrics <level>',
        'whether answers tell how drafts were accepted; requests may ask otherwise',
      )
        .choices(['none', 'summary', 'detailed'])
        .default('none'),
    )
    .option('--log-prompts', 'let the log hold prompts and answers')
    .optionsGroup('Machine:');
  addMachine(addDownload(command)).addHelpText('after', examples);
  command.action(async (flags: ServeFlags) => {
    const { runServe } = await import('./serve-action.js');
    context.exitCode = await runServe(flags, context.terminal);
  });
}

const examples = `
Examples:
  mistletoe serve                                        the bundled model, by plain decoding
  mistletoe serve --drafter eagle3 --draft chain:4       speculatively
  mistletoe serve -t ./my-model -d ./my-eagle3 -d ngram  requests choose: "mistletoe": {"drafter": "ngram"}
  mistletoe serve -d eagle3 -d sps --guarded             a request whose drafts fail goes on with sps, ngram, plain
  mistletoe serve --host 0.0.0.0 --keys keys.txt         for other machines, with keys

The log goes to stdout, one line of JSON a request, without prompts; everything else to stderr. Ctrl-C takes no new
requests, lets answers finish, and ends the others with what they have. Exit code 0 then.
`;
