/**
 * Chat formats of families that were published before templates were: what their authors' own code writes. A folder
 * gets one without being asked only where its name says the very release; anything less certain is left to
 * --chat-template.
 */
import { join, resolve } from 'node:path';
import { fileLimits } from '../../core/limits.js';
import { parseJson, readTextFile } from '../text-file.js';

export const builtInTemplateNames = ['vicuna', 'llama-2'] as const;
export type BuiltInTemplateName = (typeof builtInTemplateNames)[number];

interface BuiltInTemplate {
  readonly source: string;
  /** The authors' code leaves the beginning-of-sequence token to the tokenizer, which matters to what stands behind it. */
  readonly addSpecialTokens: boolean;
  /** Names of the releases that have this format and no template of their own. */
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

const templates: Readonly<Record<BuiltInTemplateName, BuiltInTemplate>> = {
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

export function isBuiltInTemplate(name: string): name is BuiltInTemplateName {
  return Object.hasOwn(templates, name);
}

export function builtInTemplate(name: BuiltInTemplateName): {
  readonly source: string;
  readonly addSpecialTokens: boolean;
} {
  const { source, addSpecialTokens } = templates[name];
  return { source, addSpecialTokens };
}

/** The format of the release that config.json or the folder's own name says the folder is. */
export async function recogniseTemplate(folder: string): Promise<BuiltInTemplateName | undefined> {
  const names = [await readOriginalName(folder), ...folderNames(folder)];
  return builtInTemplateNames.find((name) =>
    names.some((said) => said !== undefined && templates[name].releases.test(said)),
  );
}

/** The last part of the path; in the hub's cache, where that is a hash, the part that carries the model's name. */
function folderNames(folder: string): readonly string[] {
  const parts = resolve(folder).split(/[\\/]/);
  const [owner = '', snapshots = '', last = ''] = parts.slice(-3);
  return snapshots === 'snapshots' && owner.startsWith('models--') ? [last, owner] : [last];
}

async function readOriginalName(folder: string): Promise<string | undefined> {
  const path = join(folder, 'config.json');
  const text = await readTextFile(path, fileLimits.configuration);
  if (text === undefined) return undefined;
  const config = parseJson(text, path) as { readonly _name_or_path?: unknown } | null;
  const name = config?._name_or_path;
  return typeof name === 'string' ? name : undefined;
}
