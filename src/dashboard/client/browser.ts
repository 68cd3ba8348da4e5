/**
 * The little of a browser that the page uses. It is spelt out here rather than taken from the compiler's list because of
 * what is missing: no innerHTML, no insertAdjacentHTML, no document.write. Text from the API can only become text.
 */
export interface PageElement {
  textContent: string | null;
  /** Of a select or an input. */
  readonly value: string;
  /** In pixels; undefined, or 0, where nothing is laid out. */
  readonly clientWidth?: number;
  readonly firstElementChild: PageElement | null;
  readonly nextElementSibling: PageElement | null;
  append(...children: readonly (PageElement | string)[]): void;
  replaceChildren(...children: readonly (PageElement | string)[]): void;
  insertBefore(child: PageElement, before: PageElement | null): void;
  remove(): void;
  getAttribute(name: string): string | null;
  setAttribute(name: string, value: string): void;
  removeAttribute(name: string): void;
  toggleAttribute(name: string, isSet: boolean): boolean;
  addEventListener(kind: string, listener: (event: PageEvent) => void): void;
  focus(): void;
}

export interface PageEvent {
  preventDefault(): void;
}

export interface PageDocument {
  readonly documentElement: PageElement;
  readonly visibilityState: 'visible' | 'hidden';
  title: string;
  createElement(name: string): PageElement;
  createElementNS(space: string, name: string): PageElement;
  getElementById(id: string): PageElement | null;
  addEventListener(kind: string, listener: () => void): void;
}

export interface PageResponse {
  readonly ok: boolean;
  readonly status: number;
  json(): Promise<unknown>;
}

export interface PageStorage {
  getItem(name: string): string | null;
  setItem(name: string, value: string): void;
}

export interface Browser {
  readonly document: PageDocument;
  readonly location: { readonly origin: string; readonly pathname: string };
  /** Reading these throws where the reader forbids storage. */
  readonly localStorage: PageStorage;
  readonly sessionStorage: PageStorage;
  fetch(
    url: string,
    options: {
      readonly headers: Readonly<Record<string, string>>;
      readonly signal: AbortSignal;
      readonly cache: 'no-store';
    },
  ): Promise<PageResponse>;
  addEventListener(kind: 'resize', listener: () => void): void;
  setTimeout(task: () => void, milliseconds: number): number;
  clearTimeout(timer: number): void;
  matchMedia(query: string): {
    readonly matches: boolean;
    addEventListener(kind: string, listener: () => void): void;
  };
}
