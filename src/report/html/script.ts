/** All the script there is: the reader's choice of light or dark, and prompts that open for printing. */
export const pageScript = `(() => {
  const root = document.documentElement;
  const button = document.getElementById('theme');
  const media = matchMedia('(prefers-color-scheme: dark)');
  const isDark = () => (root.dataset.theme ?? (media.matches ? 'dark' : 'light')) === 'dark';
  const label = () => {
    button.textContent = isDark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', 'Switch to ' + (isDark() ? 'light' : 'dark') + ' colours');
  };
  try {
    const kept = localStorage.getItem('mistletoe-theme');
    if (kept === 'dark' || kept === 'light') root.dataset.theme = kept;
  } catch {}
  label();
  button.hidden = false;
  media.addEventListener('change', label);
  button.addEventListener('click', () => {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    label();
    try {
      localStorage.setItem('mistletoe-theme', root.dataset.theme);
    } catch {}
  });
  addEventListener('beforeprint', () => {
    for (const prompt of document.querySelectorAll('details')) prompt.open = true;
  });
})();`;
