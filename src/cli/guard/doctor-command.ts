import { type Command, Option } from 'commander';
import type { CommandContext } from '../command.js';
import type { DoctorFlags } from './doctor-action.js';
import { number } from './option-values.js';

export function addDoctorCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('doctor')
    .summary('say what a running engine tells about its drafts, and how to make it tell more')
    .description(
      'Looks at a running server: which engine and version, how it drafts, which telemetry of acceptance is on, and the ' +
        'exact flag to add where it is not. Knows vLLM, SGLang, TensorRT-LLM, llama.cpp, LMDeploy, TGI and mistletoe serve. ' +
        'It only reads, and generates nothing.',
    )
    .helpOption('-h, --help', 'print this help')
    .argument('<url>', 'address of the server, as localhost:8000', (given: string) =>
      /^[a-z][a-z0-9+.-]*:\/\//i.test(given) ? given : `http://${given}`,
    )
    .option('--key-env <name>', 'environment variable that holds the key of the server')
    .addOption(
      new Option('--timeout <seconds>', 'longest wait for one answer')
        .argParser(number({ least: 0.1, most: 600, expected: 'seconds from 0.1 to 600' }))
        .default(5),
    )
    .addOption(
      new Option('--format <format>', 'text for people, json for programs')
        .choices(['text', 'json'])
        .default('text'),
    )
    .addHelpText('after', examples);
  command.action(async (url: string, flags: DoctorFlags) => {
    const { runDoctor } = await import('./doctor-action.js');
    context.exitCode = await runDoctor(url, flags, context.terminal);
  });
}

const examples = `
Examples:
  mistletoe doctor localhost:8000
  mistletoe doctor https://llm.example.com/v1 --key-env LLM_KEY
  mistletoe doctor http://localhost:30000 --format json

Exit code 0 if the engine is recognised, 1 if nothing answers, 2 if the address or the key is wrong, 3 if something
answers that is no engine it knows.
`;
