/**
 * A list on the page that changes only where its items did. What stays is not touched: a reader's focus, an opened row
 * and a selection outlive the next answer of the server.
 */
import type { PageElement } from './browser.js';

export interface ListedItem<Item> {
  key(item: Item): string;
  /** Changes when the item has to be drawn anew. */
  state(item: Item): string;
  draw(item: Item): PageElement;
}

export interface KeptList<Item> {
  show(items: readonly Item[]): void;
}

/** Below `head`, where the parent has one that is not of the list. */
export function createKeptList<Item>(
  parent: PageElement,
  listed: ListedItem<Item>,
  head: PageElement | null = null,
): KeptList<Item> {
  let shown = new Map<string, { readonly element: PageElement; readonly state: string }>();
  return {
    show(items) {
      const next = new Map<string, { readonly element: PageElement; readonly state: string }>();
      for (const item of items) {
        const key = listed.key(item);
        const state = listed.state(item);
        const before = shown.get(key);
        next.set(key, before?.state === state ? before : { element: listed.draw(item), state });
      }
      for (const [key, { element }] of shown) if (next.get(key)?.element !== element) element.remove();
      let place = head === null ? parent.firstElementChild : head.nextElementSibling;
      for (const { element } of next.values()) {
        if (element === place) place = place.nextElementSibling;
        else parent.insertBefore(element, place);
      }
      shown = next;
    },
  };
}
