// What POST /v1/feed/explain answered, in words.

import { moment } from './format.js';

const verbs = { block: 'blocked', hide: 'hidden', like: 'liked', seen: 'seen' };

/** Ids in a sentence are objects, {id}, so that they look different: strangers choose them. */
const id = (text) => ({ id: text });

/** sentenceOf says in one sentence what becomes of the post. */
export function sentenceOf(answer, asked) {
  const it = asked.post.id ? 'this post' : 'posts by this author';
  const drops = answer.reasons.filter((r) => r.effect === 'drop' && !r.overruled_by);
  if (!answer.dropped && answer.degraded.length > 0) return ['warn', `A feed keeps ${it} now, but some kinds could not be checked.`];
  if (!answer.dropped) return ['ok', `A feed keeps ${it}.`];
  if (drops.every((r) => r.certainty === 'false')) return ['warn', `A feed drops ${it} because of a false positive. An exact feed does not.`];
  if (drops.every((r) => r.certainty !== 'certain')) return ['warn', `A feed drops ${it}. The reason cannot be confirmed.`];
  return ['info', `A feed drops ${it}. The reason is certain.`];
}

/** todo is what to do about a false positive, by the effect of its kind. */
const todo = {
  drop: 'What to do: nothing, if it is rare. A feed with "exact": true asks the ledger and keeps the post.',
  annotate: 'What to do: nothing. A feed with "exact": true does not annotate it.',
  keep: 'What to do: nothing. It keeps no post, because feeds ask the ledger about exceptions.',
};

/** reasonOf returns the state of a reason and its lines. kinds are the service's, by name. */
export function reasonOf(reason, asked, kinds) {
  const lines = [what(reason, asked)];
  if (reason.overruled_by) lines.push([`“${reason.overruled_by}” overrules it, and keeps the post.`]);
  if (reason.certainty === 'false') {
    lines.push([`The filter reports it, but the ledger does not have it: a false positive, until the page changes.`]);
    lines.push([todo[reason.effect]]);
    return { state: 'warn', certainty: 'False positive', lines };
  }
  if (reason.certainty === 'unconfirmed') {
    lines.push([`Seen no earlier than ${moment(reason.since)}; forgotten by ${moment(reason.until)} at the latest. It is in ${reason.parts.length === 1 ? 'one part' : `${reason.parts.length} parts`} of its window.`]);
    lines.push([`It cannot be confirmed: kinds with a window are not in the ledger. What to do: wait, or leave "${reason.kind}" out of the "kinds" of the feed.`]);
    return { state: 'unknown', certainty: 'Not confirmed', lines };
  }
  lines.push([`The ledger has it, since ${moment(reason.since)}${reason.until ? `, until ${moment(reason.until)}` : ''}.`]);
  const path = undo(reason, asked, kinds);
  if (path) lines.push(['What to do: nothing, if this is intended. To undo it: ', id(`DELETE ${path}`)]);
  return { state: 'info', certainty: 'Certain', lines };
}

const effects = {
  annotate: ' This annotates the post, and does not drop it.',
  keep: ' This keeps the post in spite of kinds that it overrules.',
};

/** sides returns whose activity it is, and at what. */
function sides(reason, asked) {
  if (reason.direction === 'by_actor') return [reason.actor, asked.viewer];
  return [reason.list || asked.viewer, reason.actor || reason.target || asked.post.id];
}

function what(reason, asked) {
  const byActor = reason.direction === 'by_actor';
  const [who, whom] = sides(reason, asked);
  const effect = effects[reason.effect] ?? '';
  const role = roleOf(reason.actor, asked);
  const verb = verbs[reason.kind];
  if (reason.list) return ['“', reason.kind, '” by the list ', id(who), ' of ', id(whom), `${role}.${effect}`];
  if (reason.kind === 'seen') return [id(who), ' may have seen ', id(whom), `.${effect}`];
  if (verb && byActor) return [id(who), `${role && `${role},`} has ${verb} `, id(whom), `.${effect}`];
  if (verb) return [id(who), ` has ${verb} `, id(whom), `${role}.${effect}`];
  return ['“', reason.kind, '” by ', id(who), byActor && role ? `${role},` : '', ' of ', id(whom), `${byActor ? '' : role}.${effect}`];
}

function roleOf(actor, asked) {
  if (!actor) return '';
  if (actor === asked.post.author) return ', the author';
  const role = asked.post.actors?.find((a) => a.id === actor)?.role;
  return role ? `, on the post as ${role}` : ', on the post';
}

/** facetsOf returns the facets that kinds target, besides users and posts. */
export function facetsOf(kinds) {
  const targets = [...kinds.values()].map((kind) => kind.target);
  return [...new Set(targets)].filter((target) => target !== 'user' && target !== 'post').sort();
}

/** unchecked lists what the answer does not cover, because the call named none of it. */
export function unchecked({ post, lists }, kinds) {
  const named = (what, target) => {
    const of = [...kinds.values()].filter((kind) => kind.target === target).map((kind) => kind.name);
    return of.length > 0 && `${what} (${of.join(', ')})`;
  };
  return [
    !post.id && named('posts', 'post'), !post.related && 'related posts', !post.actors && 'others on the post',
    ...facetsOf(kinds).map((facet) => !post.facets?.[facet] && named(facet, facet)), !lists && 'lists',
  ].filter(Boolean);
}

/** undo returns the path that takes the activity back. */
function undo(reason, asked, kinds) {
  const plural = kinds.get(reason.kind)?.plural;
  if (!plural) return null;
  const [who, whom] = sides(reason, asked);
  return `/v1/users/${encodeURIComponent(who)}/${plural}/${encodeURIComponent(whom)}`;
}
