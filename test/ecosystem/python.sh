# shellcheck shell=bash disable=SC1091,SC2154
# The client of Debian's packages, unpacked beside the system.
if [ ! -e "$CACHE/$VERSION/usr" ]; then
	mkdir -p debs
	(cd debs && apt-get -qq download python3-kubernetes python3-yaml python3-dateutil python3-urllib3 python3-websocket python3-google-auth \
		python3-oauthlib python3-requests-oauthlib python3-requests python3-certifi python3-six python3-pyasn1 python3-pyasn1-modules python3-rsa \
		python3-cachetools python3-chardet python3-idna python3-charset-normalizer libyaml-0-2)
	for deb in debs/*.deb; do dpkg -x "$deb" "$CACHE/$VERSION.new"; done
	mv "$CACHE/$VERSION.new" "$CACHE/$VERSION"
fi
libraries=$(echo "$CACHE/$VERSION"/usr/lib/*-linux-gnu)
export LD_LIBRARY_PATH=$libraries PYTHONPATH=$CACHE/$VERSION/usr/lib/python3/dist-packages
PYTHONDONTWRITEBYTECODE=1 /usr/bin/python3 "$CLIENT/python.py"
