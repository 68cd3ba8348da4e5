/**
 * Draws elements. Names of elements and attributes are closed lists: nothing that loads, runs or leads elsewhere can be
 * drawn, whatever the API says, and strings become text nodes whose unseen characters are made visible.
 */
import { showInvisible } from '../../report/escape.js';
import type { PageDocument, PageElement } from './browser.js';

type HtmlName =
  | ('article' | 'b' | 'button' | 'code' | 'dd' | 'div' | 'dl' | 'dt' | 'figcaption' | 'figure' | 'h3' | 'li')
  | ('option' | 'p' | 'pre' | 'small' | 'span' | 'tbody' | 'td' | 'th' | 'time' | 'tr');
type SvgName = 'svg' | 'g' | 'path' | 'line' | 'rect' | 'circle' | 'text' | 'title';

type AttributeName =
  | ('class' | 'id' | 'role' | 'title' | 'type' | 'value' | 'scope' | 'colspan' | 'datetime' | 'selected')
  | ('viewBox' | 'width' | 'height' | 'x' | 'y' | 'x1' | 'x2' | 'y1' | 'y2' | 'cx' | 'cy' | 'r' | 'd')
  | ('text-anchor' | 'preserveAspectRatio')
  | `aria-${string}`;

export type Attributes = Readonly<Partial<Record<AttributeName, string | number | null>>>;
export type Child = PageElement | string | number | null | readonly Child[];

export interface Pen {
  html(name: HtmlName, attributes: Attributes, ...children: readonly Child[]): PageElement;
  svg(name: SvgName, attributes: Attributes, ...children: readonly Child[]): PageElement;
}

const svgSpace = 'http://www.w3.org/2000/svg';

export function createPen(document: PageDocument): Pen {
  return {
    html: (name, attributes, ...children) => complete(document.createElement(name), attributes, children),
    svg: (name, attributes, ...children) =>
      complete(document.createElementNS(svgSpace, name), attributes, children),
  };
}

function complete(element: PageElement, attributes: Attributes, children: readonly Child[]): PageElement {
  for (const [name, value] of Object.entries(attributes))
    if (value !== null)
      element.setAttribute(name, isRead(name) ? showInvisible(String(value)) : String(value));
  element.append(...children.flatMap(flatten));
  return element;
}

/** Others are compared or measured, and have to stay as they are. */
const isRead = (name: string): boolean => name === 'title' || name.startsWith('aria-');

function flatten(child: Child): (PageElement | string)[] {
  if (child === null) return [];
  if (typeof child === 'string') return [showInvisible(child)];
  if (typeof child === 'number') return [String(child)];
  return isList(child) ? child.flatMap(flatten) : [child];
}

const isList = (child: PageElement | readonly Child[]): child is readonly Child[] => Array.isArray(child);
