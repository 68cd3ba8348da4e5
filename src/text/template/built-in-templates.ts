/**
 * Chat formats of model families older than chat templates, as their authors' code writes them. A folder gets one
 * automatically only if its name is that of a known release; otherwise use --chat-template.
 */
import { basename, join, resolve } from 'node:path';
import { nameModel } from '../../checkpoint/hub/hub-settings.js';
import { isRecord } from '../../core/json-text.js';
import { fileLimits } from '../../core/limits.js';
import { parseJson, readTextFile } from '../../core/files.js';

interface BuiltInTemplate {
  readonly source: string;
  /** The authors' code leaves the beginning-of-sequence token to the tokenizer. */
  readonly addSpecialTokens: boolean;
  /** Those with this format and without a template. */
  readonly releases: RegExp;
}

const begin = "{{ bos_token if bos_token is defined else '<s>' }}";
const end = "{{ eos_token if eos_token is defined else '</s>' }}";
const takeSystem = (otherwise: string): string =>
  "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] %}{% set turns = messages[1:] %}" +
  `{% else %}{% set system = ${otherwise} %}{% set turns = messages %}{% endif %}`;
const requireTurns =
  "{% if (turn['role'] == 'user') != (loop.index0 % 2 == 0) or turn['role'] not in ['user', 'assistant'] %}" +
  "{{ raise_exception('after an optional system message, user and assistant must take turns') }}{% endif %}";

const templates: Readonly<Record<string, BuiltInTemplate>> = {
  // FastChat's conversation "vicuna_v1.1", which version 1.1 and all later ones use; version 0 had another.
  vicuna: {
    addSpecialTokens: true,
    releases: /(^|[^a-z])vicuna-\d+b-v1\.[1-9]/i,
    source: [
      takeSystem(
        '"A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, ' +
          'detailed, and polite answers to the user\'s questions."',
      ),
      "{{ system + ' ' }}",
      `{% for turn in turns %}${requireTurns}`,
      "{% if turn['role'] == 'user' %}{{ 'USER: ' + turn['content'] + ' ' }}",
      `{% else %}{{ 'ASSISTANT: ' + turn['content'] }}${end}{% endif %}{% endfor %}`,
      "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
    ].join(''),
  },
  // Meta's reference code: every exchange begins and ends a sequence of its own.
  'llama-2': {
    addSpecialTokens: false,
    releases: /(^|[^a-z])llama-2-\d+b-chat/i,
    source: [
      takeSystem('none'),
      `{% for turn in turns %}${requireTurns}`,
      "{% if turn['role'] == 'user' %}",
      "{% if loop.index0 == 0 and system is not none %}{% set text = '<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' + turn['content'] %}",
      "{% else %}{% set text = turn['content'] %}{% endif %}",
      `${begin}{{ '[INST] ' + text.strip() + ' [/INST]' }}`,
      `{% else %}{{ ' ' + turn['content'].strip() + ' ' }}${end}{% endif %}{% endfor %}`,
    ].join(''),
  },
};

export const builtInTemplateNames: readonly string[] = Object.keys(templates);

/** Without what recognises it: runs save the template. */
export function findBuiltInTemplate(name: string): Omit<BuiltInTemplate, 'releases'> | undefined {
  const known = Object.hasOwn(templates, name) ? templates[name] : undefined;
  return known && { source: known.source, addSpecialTokens: known.addSpecialTokens };
}

/** The format of a known release, by config.json or the folder's name. */
export async function recogniseTemplate(folder: string): Promise<string | undefined> {
  const path = join(folder, 'config.json');
  const text = await readTextFile(path, fileLimits.configuration);
  const config = text === undefined ? undefined : parseJson(text, path);
  const original = isRecord(config) ? config._name_or_path : undefined;
  const names = [typeof original === 'string' ? original : '', basename(resolve(folder)), nameModel(folder)];
  return builtInTemplateNames.find((name) => names.some((said) => templates[name]!.releases.test(said)));
}
