/** Reads HTML and XML back for tests, typed by the little that they look at. */
import { DOMParser, parseHTML } from 'linkedom';

export interface ParsedNode {
  readonly id: string;
  readonly textContent: string;
  readonly attributes: Iterable<{ readonly name: string }>;
  getAttribute(name: string): string | null;
  querySelector(selector: string): ParsedNode | null;
  querySelectorAll(selector: string): Iterable<ParsedNode> & { readonly length: number };
}

export function parsePage(text: string): ParsedNode {
  return (parseHTML(text) as unknown as { document: ParsedNode }).document;
}

export function parseXml(text: string): ParsedNode {
  return new DOMParser().parseFromString(text, 'text/xml') as unknown as ParsedNode;
}
