#!/bin/sh
# Example calls of RideShare with the answers that they give.
#
#   sh calls.sh [GATEWAY] [USERS] [ORCHESTRATOR]
#
# It first deletes all users and rides. It prints each call with its answer, and fails if an answer is not the expected
# one. It needs curl.

set -u

gateway=${1:-http://127.0.0.1:8000}
users=${2:-http://127.0.0.1:8001}
orchestrator=${3:-http://127.0.0.1:8003}
failures=0
answer=$(mktemp) || exit 1
trap 'rm -f "$answer"' EXIT

# expect STATUS BODY METHOD URL [REQUEST BODY]
# BODY is a pattern of the shell: "*" is any text. It is empty if the answer has no body.
expect() {
    status=$1 body=$2 method=$3 url=$4
    if [ $# -gt 4 ]; then
        echo "$method $url $5"
        got=$(curl -s -o "$answer" -w '%{http_code}' -X "$method" "$url" -d "$5")
    else
        echo "$method $url"
        got=$(curl -s -o "$answer" -w '%{http_code}' -X "$method" "$url")
    fi
    text=$(cat "$answer")
    echo "  $got $text"
    # The pattern is meant to be one.
    # shellcheck disable=SC2254
    case "$got $text" in
    "$status "$body) ;;
    *)
        echo "  EXPECTED $status $body"
        failures=$((failures + 1))
        ;;
    esac
    : >"$answer"
}

password=3d725109c7e7c0bfb9d709836735b56d943d263f
time=01-06-2099:00-30-14

echo "# Begin with empty tables and counters"
expect 200 '{}' POST "$gateway/api/v1/db/clear"
expect 200 '{}' DELETE "$gateway/api/v1/_count"
expect 200 '{}' DELETE "$users/api/v1/_count"

echo "# Users"
expect 204 '' GET "$gateway/api/v1/users"
expect 201 '{}' PUT "$gateway/api/v1/users" "{\"username\": \"bob\", \"password\": \"$password\"}"
expect 201 '{}' PUT "$gateway/api/v1/users" "{\"username\": \"ann\", \"password\": \"$password\"}"
expect 200 '\["ann","bob"\]' GET "$gateway/api/v1/users"
expect 400 '*taken*' PUT "$gateway/api/v1/users" "{\"username\": \"ann\", \"password\": \"$password\"}"
expect 400 '*40 hexadecimal digits*' PUT "$gateway/api/v1/users" '{"username": "cid", "password": "secret"}'
expect 405 '*GET, PUT*' POST "$gateway/api/v1/users"

echo "# Rides: from area 3 to area 44, at 14:30 on the first of June"
expect 201 '{}' POST "$gateway/api/v1/rides" \
    "{\"created_by\": \"ann\", \"timestamp\": \"$time\", \"source\": 3, \"destination\": \"44\"}"
expect 400 '*no user*' POST "$gateway/api/v1/rides" \
    "{\"created_by\": \"eve\", \"timestamp\": \"$time\", \"source\": 3, \"destination\": 44}"
expect 400 '*past*' POST "$gateway/api/v1/rides" \
    '{"created_by": "ann", "timestamp": "01-06-2001:00-30-14", "source": 3, "destination": 44}'
expect 200 '\[{"rideId":*,"username":"ann","timestamp":"01-06-2099:00-30-14"}\]' \
    GET "$gateway/api/v1/rides?source=3&destination=44"
expect 204 '' GET "$gateway/api/v1/rides?source=44&destination=3"
expect 400 '*source*' GET "$gateway/api/v1/rides?source=199&destination=3"
expect 200 '\[1\]' GET "$gateway/api/v1/rides/count"

echo "# Joining: ids never come again, so this one is asked for"
id=$(curl -s "$gateway/api/v1/rides?source=3&destination=44" | sed 's/.*"rideId":\([0-9]*\).*/\1/')
expect 200 '{}' POST "$gateway/api/v1/rides/$id" '{"username": "bob"}'
expect 400 '*joined already*' POST "$gateway/api/v1/rides/$id" '{"username": "bob"}'
expect 400 '*created it*' POST "$gateway/api/v1/rides/$id" '{"username": "ann"}'
ride="\"rideId\":$id,\"created_by\":\"ann\",\"users\":\[\"bob\"\],\"timestamp\":\"$time\",\"source\":3,\"destination\":44"
expect 200 "{$ride}" GET "$gateway/api/v1/rides/$id"

echo "# The database in the application's own words"
expect 200 "\[{\"rideId\":$id,\"username\":\"bob\"}\]" POST "$orchestrator/api/v1/db/read" \
    "{\"table\": \"riders\", \"columns\": [\"rideId\", \"username\"], \"where\": \"rideId=$id\"}"
expect 201 '{}' POST "$orchestrator/api/v1/db/write" \
    "{\"table\": \"users\", \"columns\": [\"username\", \"password\"], \"insert\": [\"cid\", \"$password\"]}"
expect 201 '{}' POST "$orchestrator/api/v1/db/write" '{"table": "users", "isDelete": true, "where": "username=cid"}'
expect 200 '\[*\]' GET "$orchestrator/api/v1/worker/list"

echo "# Deleting a user deletes their rides, and their name in the rides of others"
expect 200 '{}' DELETE "$gateway/api/v1/users/bob"
expect 200 '*"users":\[\],*' GET "$gateway/api/v1/rides/$id"
expect 200 '{}' DELETE "$gateway/api/v1/rides/$id"
expect 400 '*no such ride*' DELETE "$gateway/api/v1/rides/$id"

echo "# Requests to rides, and to users: two of these are the rides service's own"
expect 200 '\[15\]' GET "$gateway/api/v1/_count"
expect 200 '\[10\]' GET "$users/api/v1/_count"

echo "# Drills: the leader ends, and another worker leads; nothing is lost"
expect 200 '\[*\]' POST "$orchestrator/api/v1/crash/master"
expect 200 '\["ann"\]' GET "$gateway/api/v1/users"

if [ "$failures" -gt 0 ]; then
    echo "$failures answers were not as expected" >&2
    exit 1
fi
echo "All answers were as expected."
