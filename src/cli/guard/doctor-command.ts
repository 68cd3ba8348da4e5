import { type Command, Option } from 'commander';
import type { CommandContext } from '../command.js';
import type { DoctorFlags } from './doctor-action.js';
import { number } from './option-values.js';

export function addDoctorCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('doctor')
    .summary('show what draft metrics a running server exposes, and how to get more')
    .description(
      'Examines a running server: engine and version, how it drafts, which acceptance telemetry is on, and the flag to add ' +
        'where it is not. Knows vLLM, SGLang, TensorRT-LLM, llama.cpp, LMDeploy, TGI and mistletoe serve. It only reads and ' +
        'generates nothing.',
    )
    .helpOption('-h, --help', 'print this help')
    .argument('<url>', 'address of the server, as localhost:8000', (given: string) =>
      /^[a-z][a-z0-9+.-]*:\/\//i.test(given) ? given : `http://${given}`,
    )
    .option('--key-env <name>', 'environment variable that holds the key of the server')
    .addOption(
      new Option('--timeout <seconds>', 'max wait for one response')
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

Exit code 0 if the engine is known, 1 if nothing responds, 2 if the address or the key is wrong, 3 if the server is not
an engine that doctor knows.
`;
