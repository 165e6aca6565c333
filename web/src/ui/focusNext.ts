/**
 * Work after which a button in a list is gone: the focus goes to the button that took its place, to the list if that can
 * have it, or to the first field.
 */
export function focusNext(button: HTMLElement, work: () => Promise<void>): () => Promise<void> {
  const list = button.closest("ul");
  const section = button.closest("section");
  const buttons = (): HTMLElement[] => [...(list?.querySelectorAll("button") ?? [])];
  const at = buttons().indexOf(button);
  return async () => {
    await work();
    requestAnimationFrame(() => {
      if (document.activeElement !== document.body) return;
      const inList = list?.isConnected ? (buttons()[at] ?? buttons().at(-1) ?? (list.tabIndex >= 0 ? list : null)) : null;
      (inList ?? section?.querySelector<HTMLElement>("select, input"))?.focus();
    });
  };
}
