/** What may stand in a report whose contents are a stranger's: nothing that a reader's program would act upon. */
import { parsePage } from '../support/report/parse-document.js';
import { ensure } from './kind.js';

/** Controls and marks of direction; line ends and tabs are text. */
const invisible = /(?![\n\t])[\p{Cc}\u202a-\u202e\u2066-\u2069]/u;

export function checkText(text: string): void {
  const found = invisible.exec(text);
  ensure(found === null, `U+${found?.[0].charCodeAt(0).toString(16) ?? ''} at ${around(text, found?.index)}`);
}

export interface PageWords {
  readonly elements: ReadonlySet<string>;
  readonly attributes: ReadonlySet<string>;
  readonly scripts: number;
  readonly links: readonly string[];
}

interface NamedNode {
  readonly localName: string;
}

export function describePage(text: string): PageWords {
  const nodes = [...parsePage(text).querySelectorAll('*')];
  return {
    elements: new Set(nodes.map((node) => (node as unknown as NamedNode).localName)),
    attributes: new Set(nodes.flatMap((node) => [...node.attributes].map(({ name }) => name))),
    scripts: nodes.filter((node) => (node as unknown as NamedNode).localName === 'script').length,
    links: nodes.flatMap((node) => node.getAttribute('href') ?? node.getAttribute('xlink:href') ?? []),
  };
}

export function joinWords(first: PageWords, second: PageWords): PageWords {
  return {
    ...first,
    elements: new Set([...first.elements, ...second.elements]),
    attributes: new Set([...first.attributes, ...second.attributes]),
  };
}

/** A page has no element, attribute or script that the same page about harmless texts has not. */
export function checkHtml(text: string, known: PageWords): void {
  checkText(text);
  const { elements, attributes, scripts, links } = describePage(text);
  const strange = [...elements].filter((name) => !known.elements.has(name));
  const given = [...attributes].filter((name) => !known.attributes.has(name));
  ensure(strange.length === 0 && scripts === known.scripts, `elements ${strange.join()}, ${scripts} scripts`);
  ensure(given.length === 0, `attributes ${given.join()}`);
  ensure(
    links.every((link) => link.startsWith('#')),
    `a link that leads to ${links.join()}`,
  );
}

/** Outside of the fence around the command, a bracket is written by a backslash before it. */
export function checkMarkdown(text: string): void {
  checkText(text);
  const parts = text.split(/^```(?:sh)?$/m);
  ensure(parts.length <= 3, `${parts.length - 1} fences`);
  const outside = [parts[0] ?? '', ...parts.slice(2)].join('').replace(/<\/?sub>/g, '');
  const tag = /(?<!\\)(?:\\\\)*</.exec(outside);
  ensure(tag === null, `a tag: ${around(outside, tag?.index)}`);
  const link = /(?<!\\)(?:\\\\)*\]\(|https?:\/\/|@\w/.exec(outside);
  ensure(link === null, `a link or a mention: ${around(outside, link?.index)}`);
}

const xmlTag = /<(\/?)([a-z-]+)((?: [a-z]+="[^"<]*")*) ?(\/?)>/y;
const xmlCharacters = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/u;

/** Well-formed in the small way that is needed here: tags balance, and text holds no bare sign of markup. */
export function checkXml(text: string): void {
  ensure(
    !xmlCharacters.test(text),
    `a character that XML has not: ${around(text, xmlCharacters.exec(text)?.index)}`,
  );
  const bare = /&(?!(?:amp|lt|gt|quot|#\d+);)/.exec(text);
  ensure(bare === null, `a bare ampersand: ${around(text, bare?.index)}`);
  const open: string[] = [];
  const start = text.indexOf('?>') + 2;
  for (let position = text.indexOf('<', start); position >= 0; position = text.indexOf('<', position)) {
    xmlTag.lastIndex = position;
    const tag = xmlTag.exec(text);
    ensure(tag !== null, `no tag: ${around(text, position)}`);
    const [whole, closing, name = '', , empty] = tag;
    if (closing === '/') ensure(open.pop() === name, `</${name}> closes another element`);
    else if (empty !== '/') open.push(name);
    position += whole.length;
  }
  ensure(open.length === 0, `${open.join()} is not closed`);
}

function around(text: string, index = 0): string {
  return JSON.stringify(text.slice(Math.max(0, index - 30), index + 40));
}
