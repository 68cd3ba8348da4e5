/**
 * Observable Plot, drawn on our side: it gets a document that lives only for the drawing, and what comes out is inline
 * SVG whose colours are the page's variables. Charts are drawn at the width of a phone and scale up, so their text
 * never becomes smaller than it is here.
 */
import * as Plot from '@observablehq/plot';
import { parseHTML } from 'linkedom';
import { showInvisible } from './escape.js';
import type { Markup } from './markup.js';
import { trusted } from './markup.js';

export const chartWidth = 440;

export interface Chart {
  /** Read aloud in place of the drawing. */
  readonly description: string;
  readonly options: Plot.PlotOptions;
}

export function drawChart({ description, options }: Chart): Markup {
  const { document } = parseHTML('<html><body></body></html>') as unknown as { document: never };
  const plot = Plot.plot({
    width: chartWidth,
    className: 'plot',
    style: { fontSize: '12px', background: 'none' },
    ...options,
    document,
  }) as unknown as DrawnElement;
  // The library brings a style element with every chart; the page's own style says it once.
  for (const style of plot.querySelectorAll('style')) style.remove();
  plot.setAttribute('role', 'img');
  plot.setAttribute('aria-label', description);
  return trusted(showInvisible(plot.outerHTML));
}

/** The little of an element that is used here; the library's own types need a browser's. */
interface DrawnElement {
  readonly outerHTML: string;
  querySelectorAll(selector: string): Iterable<{ remove(): void }>;
  setAttribute(name: string, value: string): void;
}
