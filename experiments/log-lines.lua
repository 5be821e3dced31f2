-- What the search experiments index and ask for: lines of a web server's log, made up. A line follows from its agent and its cycle
-- alone. Words are drawn unevenly, so that some are in every document and most are rare, as in a language.

local LINES = 500                  -- documents of a bulk
local CLIENTS = 4                  -- agents of a race
local WORDS_IN_A_LINE = 12

-- 4,096 words of four syllables.
local words = {}
do
    local syllables = { "ba", "ke", "li", "mo", "nu", "ra", "se", "ti" }
    for number = 0, 4095 do
        local word, rest = "", number
        for _ = 1, 4 do
            word = word .. syllables[rest % 8 + 1]
            rest = rest // 8
        end
        words[number + 1] = word
    end
end
local methods = { "GET", "GET", "GET", "GET", "GET", "GET", "POST", "PUT" }
local statuses = { 200, 200, 200, 200, 200, 200, 200, 200, 200, 200, 301, 304, 304, 404, 404, 500 }

-- The next of a series of whole numbers below 2^31 - 1 (Park and Miller 1988).
local function after(number)
    return number * 16807 % 2147483647
end

-- A number from 0 to 1 as a word; the third power makes low ones frequent.
local function word(at)
    return words[math.floor(4096 * at * at * at) + 1]
end

-- The index of the race that the agent takes part in.
function race(t)
    return "race-" .. (t.agent - 1) // CLIENTS + 1
end

-- The body of a bulk.
function bulk(t)
    local number = after((t.agent * 7919 + t.seq * 104729) % 2147483646 + 1)
    local second = t.seq % 86400
    local time = string.format("2020-08-30T%02d:%02d:%02d", second // 3600, second // 60 % 60, second % 60)
    local lines, message = table.create(2 * LINES), table.create(WORDS_IN_A_LINE)
    for line = 1, LINES do
        for place = 1, WORDS_IN_A_LINE do
            number = after(number)
            message[place] = word(number / 2147483647)
        end
        number = after(number)
        lines[2 * line - 1] = '{"index":{}}'
        lines[2 * line] = string.format(
            '{"@timestamp":"%s.%03dZ","host":"web-%02d","client":"10.%d.%d.%d","method":"%s","path":"/%s/%s","status":%d,"size":%d,"message":"%s"}',
            time, line % 1000, number % 20, number % 251, number % 241, number % 239, methods[number % 8 + 1], message[1], message[2],
            statuses[number % 16 + 1], number % 20000, table.concat(message, " "))
    end
    return table.concat(lines, "\n") .. "\n"
end

-- Two words to look for.
function two_words(t)
    return word(t.random()) .. " " .. word(t.random())
end
