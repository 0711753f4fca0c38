# shellcheck shell=bash disable=SC1091,SC2154
# The client of npm, as its examples use it.
if [ ! -e "$CACHE/$VERSION/node_modules" ]; then
	mkdir -p "$CACHE/$VERSION"
	cp "$CLIENT"/javascript/package*.json "$CACHE/$VERSION"
	npm ci --prefix "$CACHE/$VERSION" --no-audit --no-fund --ignore-scripts
fi
cp "$CLIENT/javascript/trial.mjs" "$CACHE/$VERSION"
node "$CACHE/$VERSION/trial.mjs"
