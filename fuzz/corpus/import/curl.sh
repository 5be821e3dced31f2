#!/bin/sh
# A shop: log in, look, buy.
TOKEN=$(curl -s -X POST http://localhost:8080/login -d 'user=ann' -d 'password=secret' | jq -r .token)

curl 'http://localhost:8080/items?limit=20' \
  -H 'Accept: application/json' \
  -H 'sec-ch-ua: "Chromium";v="129"' \
  -H "Authorization: Bearer $TOKEN" --compressed

curl --json '{"item": "{7}", "note": "it'"'"'s a gift"}' -H "Authorization: Bearer abcdef" http://localhost:8080/cart
curl -F 'picture=@cat.png' http://localhost:8080/pictures
curl -sS -o /dev/null http://localhost:8080/items/[1-500] --max-time 5
curl http://cdn.example/logo.png
curl -X OPTIONS http://localhost:8080/items
