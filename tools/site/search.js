// Finds the sections that have all words that were typed: first those with them in their heading.
const field = document.getElementById('search');
const found = document.getElementById('found');
const up = document.body.dataset.up;
const texts = window.sections.map((s) => ({ ...s, head: (s.p + ' ' + s.h).toLowerCase(), all: (s.p + ' ' + s.h + ' ' + s.t).toLowerCase() }));

function look() {
	const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
	const hits = words.length ? texts.filter((s) => words.every((w) => s.all.includes(w))) : [];
	hits.sort((a, b) => words.filter((w) => b.head.includes(w)).length - words.filter((w) => a.head.includes(w)).length);
	found.replaceChildren(...hits.slice(0, 20).map((s) => line(s, words[0])));
}

function line(s, word) {
	const item = document.createElement('li');
	const link = document.createElement('a');
	link.href = up + s.u;
	link.textContent = s.h === s.p ? s.h : s.h + ' · ' + s.p;
	const at = Math.max(0, s.t.toLowerCase().indexOf(word) - 30);
	const around = document.createElement('small');
	around.textContent = s.t.slice(at, at + 90);
	link.append(around);
	item.append(link);
	return item;
}

field.addEventListener('input', look);
document.addEventListener('keydown', (e) => {
	if (e.key === '/' && document.activeElement !== field) {
		e.preventDefault();
		field.focus();
	}
});
