/** Light or dark: the system's choice, or the reader's, which is kept. */
import type { Browser, PageElement } from './browser.js';

const kept = 'mistletoe-theme';

export function startTheme(browser: Browser, button: PageElement): void {
  const root = browser.document.documentElement;
  const media = browser.matchMedia('(prefers-color-scheme: dark)');
  const isDark = (): boolean => {
    const chosen = root.getAttribute('data-theme');
    return chosen === null ? media.matches : chosen === 'dark';
  };
  const label = (): void => {
    button.textContent = isDark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', `Switch to ${isDark() ? 'light' : 'dark'} colours`);
  };
  const chosen = readStored(() => browser.localStorage, kept);
  if (chosen === 'dark' || chosen === 'light') root.setAttribute('data-theme', chosen);
  label();
  button.removeAttribute('hidden');
  media.addEventListener('change', label);
  button.addEventListener('click', () => {
    const next = isDark() ? 'light' : 'dark';
    root.setAttribute('data-theme', next);
    store(() => browser.localStorage, kept, next);
    label();
  });
}

/** Storage that the reader forbids throws when it is touched; then the choice lasts as long as the page. */
export function readStored(open: () => Browser['localStorage'], name: string): string | null {
  try {
    return open().getItem(name);
  } catch {
    return null;
  }
}

export function store(open: () => Browser['localStorage'], name: string, value: string): void {
  try {
    open().setItem(name, value);
  } catch {
    // Nothing to do: see above.
  }
}
