import type { Markup } from '../markup.js';

/** A part of the page with a name of its own in the navigation. */
export interface Chapter {
  readonly id: string;
  readonly name: string;
  readonly content: Markup;
}
