// Makes elements. Texts of a fleet become text alone: nothing here takes HTML.

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// Sets a text only where it is another one: most of a page stays as it is most of the time.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function mark(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

// Makes the children of an element those of a list, by key, and has each brought up to date.
export function keyed(parent, items, key, build, update) {
  const known = parent.known || (parent.known = new Map());
  const there = new Set();
  let place = parent.firstChild;
  for (const item of items) {
    const name = key(item);
    there.add(name);
    let child = known.get(name);
    if (!child) {
      child = build(item);
      known.set(name, child);
    }
    if (child === place) place = place.nextSibling;
    else parent.insertBefore(child, place);
    update(child, item);
  }
  for (const [name, child] of known) {
    if (there.has(name)) continue;
    child.remove();
    known.delete(name);
  }
}

/* global secondsText */
// A duration as reports write it.
export const seconds = (value) => secondsText(value);

export const kindName = (kind) => kind.replaceAll('_', ' ');
