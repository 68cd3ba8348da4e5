import { parseHTML } from 'linkedom';
import { describe, expect, it } from 'vitest';
import type { PageDocument, PageElement } from './browser.js';
import { createKeptList } from './kept-list.js';

const { document } = parseHTML('<html><body></body></html>') as unknown as { document: PageDocument };

interface Item {
  readonly name: string;
  readonly value: number;
}

function create(head: PageElement | null = null): { parent: PageElement; show: (items: string) => void } {
  const parent = document.createElement('ul');
  if (head !== null) parent.append(head);
  const list = createKeptList<Item>(
    parent,
    {
      key: ({ name }) => name,
      state: ({ value }) => String(value),
      draw: ({ name, value }) => {
        const element = document.createElement('li');
        element.textContent = `${name}${value}`;
        return element;
      },
    },
    head,
  );
  const show = (items: string): void => {
    list.show(
      [...items.matchAll(/([a-z])(\d)/g)].map(([, name, value]) => ({ name: name!, value: Number(value) })),
    );
  };
  return { parent, show };
}

const children = (parent: PageElement): PageElement[] => {
  const found: PageElement[] = [];
  for (let child = parent.firstElementChild; child !== null; child = child.nextElementSibling)
    found.push(child);
  return found;
};

describe('a kept list', () => {
  it.each(['a1b1c1', 'z1a1b1c1', 'z1y1a1b1', 'c1', 'a2b1c1', 'c1b1a1', '', 'x1'])(
    'goes from a1b1c1 to %j, and leaves alone what stays in order',
    (next) => {
      const { parent, show } = create();
      show('a1b1c1');
      const before = new Map(children(parent).map((child) => [child.textContent, child]));
      show(next);
      const after = children(parent);
      expect(after.map(({ textContent }) => textContent).join('')).toBe(next);
      for (const child of after)
        if (before.has(child.textContent)) expect(child === before.get(child.textContent)).toBe(true);
    },
  );

  it('never moves what was there when something new comes first', () => {
    const { parent, show } = create();
    show('a1b1');
    const moved: unknown[] = [];
    const insert = parent.insertBefore.bind(parent);
    parent.insertBefore = (child, place) => {
      moved.push(child.textContent);
      insert(child, place);
    };
    show('y1z1a1');
    expect(moved).toEqual(['y1', 'z1']);
  });

  it('stays below its head', () => {
    const head = document.createElement('li');
    head.textContent = 'head';
    const { parent, show } = create(head);
    show('a1');
    show('b1a1');
    expect(children(parent).map(({ textContent }) => textContent)).toEqual(['head', 'b1', 'a1']);
  });
});
