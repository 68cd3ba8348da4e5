/**
 * Several compiled modules as one script, so that the page is one file and no bundler is needed when the server starts.
 * Every module becomes a function that returns what it exports; imports become what those functions returned. This
 * reads only what the compiler writes for named imports and exported declarations, and refuses everything else.
 */
import { posix } from 'node:path';
import { MistletoeError } from '../core/errors.js';

/** Gives the JavaScript of a module by its path from the root of the sources, as `dashboard/client/main.js`. */
export type ModuleReader = (path: string) => string;

interface Module {
  readonly name: string;
  readonly text: string;
}

const importForm = /^import\s*\{([^}]*)\}\s*from\s*'(\.[^']+)';(?:[ \t]*\/\/.*)?$/gm;
const exportForm = /^export (?=(?:async function|function|const|class)\*? ([A-Za-z_$][\w$]*))/gm;

/**
 * @example joinModules('dashboard/client/main.js', 'start(globalThis)', readModule)
 */
export function joinModules(entry: string, call: string, read: ModuleReader): string {
  const modules = new Map<string, Module>();
  const open = new Set<string>();
  const visit = (path: string): Module => {
    const known = modules.get(path);
    if (known !== undefined) return known;
    if (open.has(path)) throw refuse(path, 'imports lead back to it');
    open.add(path);
    const text = wrap(path, read(path), (target) => visit(target).name);
    const module = { name: `module${modules.size}`, text };
    modules.set(path, module);
    return module;
  };
  const { name } = visit(entry);
  const parts = [...modules.values()].map((module) => `const ${module.name} = ${module.text};`);
  const script = `'use strict';\n(() => {\n${parts.join('\n')}\n${name}.${call};\n})();\n`;
  // Either would end the script element, or change how it is read, wherever it stands.
  if (/<\/script|<!--/i.test(script)) throw refuse(entry, 'its text has the end of a script in it');
  return script;
}

function wrap(path: string, source: string, nameOf: (path: string) => string): string {
  const exported = [...source.matchAll(exportForm)].map((match) => match[1]!);
  const body = source
    .replace(importForm, (_, names: string, target: string) => {
      const imported = nameOf(posix.join(posix.dirname(path), target));
      return `const {${names.replace(/\s+as\s+/g, ': ')}} = ${imported};`;
    })
    .replace(exportForm, '')
    .replace(/^export \{\};$/gm, '');
  const left = /^(?:import|export)\b.*$/m.exec(body);
  if (left !== null) throw refuse(path, `"${left[0]}" is not of a form that can be joined`);
  return `(() => {\n${body.trim()}\nreturn { ${exported.join(', ')} };\n})()`;
}

function refuse(path: string, reason: string): MistletoeError {
  return new MistletoeError('runtime', `The page cannot be put together from ${path}: ${reason}.`, {
    hint: 'This is a fault of the package: please report it.',
  });
}
