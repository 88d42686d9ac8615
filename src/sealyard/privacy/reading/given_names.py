"""Common given names of many countries, without accents: evidence that a value is a person's name, never proof."""

__all__ = ("GIVEN_NAMES",)

GIVEN_NAMES = frozenset(
    """
    aaron abdul abdullah abigail abraham ada adam adele adrian adriana adrien agata agnes agnieszka ahmad ahmed ahmet
    aidan aiden aisha aino akira alan alana alba albert alberto alejandra alejandro aleksander aleksandra alessandra
    alessandro alessia alex alexander alexandra alexandre alexandria alexei alexey alexis alfonso alfred alfredo ali
    alice alicia alina alison allan allen allison alma alvaro alyssa amanda amelia amelie amina amir amit amy
    ana anabel anais anastasia andre andrea andreas andrei andres andrew andrey andrzej andy angel angela angelica
    angelina angelo angie anika anil anita anja ann anna annabelle anne annette annie annika anouk anthony antoine
    anton antonia antonina antonio anya aria ariana ariel armando arnaud arnold aron arthur artur arturo arun asha
    ashley ashok astrid athena aubrey audrey aurelie aurora ava axel ayaka ayesha ayse barbara
    barbro bart bartosz beata beatrice beatriz becky belen ben benedict benedikt benjamin benoit bernadette bernard
    bernd bernhard berta bertha bertil bertrand beth bethany betty beverly bianca bilal bill billy birgit birgitta
    bjorn blanca bob bobby bogdan bonnie boris brad bradley brandon brenda brendan brent brett brian bridget
    brigitte britta brittany bruce bruno bryan burak caleb calvin cameron camila camilla camille candace carina
    carl carla carlo carlos carmen carol carole carolina caroline carolyn carrie carsten casey cassandra
    catalina caterina catherine cathy cecilia cecile cedric celia celina celine cesar chad charles charlie
    charlotte chen chiara chloe chris christa christian christiane christina christine christoph christophe
    christopher christy cindy claire clara clarence claude claudia claudio clemens clement cody colette colin
    colleen connie connor constance conrad corinne cornelia cory courtney craig cristian cristina curtis
    cynthia cyril dagmar dale damian damien dan dana daniel daniela daniele danielle danilo danny daphne darius
    darlene darrell darren dave david davide dawid dean deborah debbie debra deepa deepak delia delphine denis
    denise dennis derek derrick diana diane didier diego dieter dilip dimitri dimitrios dina dirk dmitri dmitry
    dolores domenico dominic dominik dominique don donald donna dora dorota doris dorothy doug douglas
    dragan duncan dustin dwayne dylan ebba eddie edgar edith edmund eduard eduardo edward edwin eero eileen ekaterina
    elaine eleanor elena eleni elham eli elias elif elin elina elisa elisabeth elise eliza elizabeth ella ellen ellie
    elliot elodie eloise elsa elsie elvira emil emile emilia emilie emilio emily emine emma emmanuel emre enrico enrique
    eric erica erich erik erika erin ernest ernesto erwin esra esteban estelle esther ethan etienne eugene eugenia
    eunice eva evan evangeline eve evelyn ewa fabian fabiana fabien fabio fabrice fatima fatma federica federico
    felicia felipe felix ferdinand fernanda fernando filip filippo filomena finn fiona flavia florian frances
    francesca francesco francine francis francisca francisco francois francoise frank frankie franz fred freddie
    frederic frederick frederik frieda friedrich fritz gabor gabriel gabriela gabriele gabriella gabrielle gail gareth
    gary gaston gavin gemma gene genevieve geoffrey georg george georges georgina gerald geraldine gerard gerhard
    geronimo gertrude gianluca gianni gilbert gilles gillian gina giorgia giorgio giovanna giovanni gisela
    giulia giuliano giulio giuseppe glen glenn gloria gonzalo gordon graham greg gregor gregory greta gretchen
    grzegorz guido guillaume guillermo gunnar gunter gunther gustav gustavo guy gwen gwendolyn hailey hakan
    hakon halina hanna hannah hannes hans harald harold harriet harrison harry haruka haruto hasan hassan hatice
    hayley hazel heather hector heidi heike heinrich heinz helen helena helene helga helmut hendrik henri henrik
    henrique henry herbert heriberto herman hermann hilary hilda hiroshi holger holly horacio horst howard hubert
    hugo hui huseyin ian ibrahim ida ignacio igor ikram ilona ilse imran inga inge ingeborg ingrid ines inna irena
    irene irina iris irma isaac isabel isabela isabella isabelle isaiah ismael ismail ivan ivana ivy iwona jack jackie
    jackson jacob jacqueline jacques jaime jake jakob jakub james jamie jan jana jane janet janice janina janine
    janusz jared jarek jaroslav jasmin jasmine jason javier jay jean jeanette jeanne jeff jeffrey jelena jenna
    jennifer jenny jens jeremy jerome jerry jerzy jesper jesse jessica jesus jill jim jimmy jin jing jinyoung jiri
    joachim joan joana joanna joanne joao joaquin joe joel joelle joerg johan johann johanna johannes john johnny
    jolanta jon jonas jonathan jordan jordi jorge jose josef josefina joseph josephine josh joshua josie
    joyce juan juana juanita judith judy juha juho jules julia julian juliana julie julien juliet juliette julio
    julius jun jurgen justin justine justyna jutta kai kaitlyn kaja kamal kamil kamila kara karen karin karina karl
    karla karol karolina kasia katarina katarzyna kate katelyn katerina katharina katherine kathleen kathryn kathy
    katie katja katrin katrina kay kayla kazimierz keith kelly kelsey ken kendra kenji kenneth kenny kent kerry kevin
    khadija khalid kiara kieran kim kimberly kirsten kirsti klara klaus knut koen konrad konstantin krishna kristen
    kristian kristin kristina kristine krystyna krzysztof kurt kyle lakshmi lara larissa larry lars laszlo
    latoya laura lauren laurence laurent laurie lea leah leandro lee leena leif leila lena leo leon leonard leonardo
    leonie leonor leslie leticia levi lewis li liam lidia lieselotte lillian lilly lily lin lina linda lindsay lindsey
    linnea lionel lisa lise liv livia liz lloyd logan lois lola lorena lorenzo loretta lori lorraine lothar lotte
    louis louisa louise luana luc luca lucas lucia luciana luciano lucie lucien lucille lucinda lucy ludmila ludovic
    ludwig luigi luis luisa luiz lukas lukasz luke luna lutz lydia lynn maarten madeleine madeline madison
    mads magda magdalena magnus mahmoud maja malcolm malgorzata malik malin mandy manfred manoj manon manuel manuela
    mara marc marcel marcela marcelo marcia marcin marco marcos marcus mareike marek margaret margarida margarita
    margit margot marguerite mari maria mariana marianne marie mariella marietta marija marilyn marina mario
    marion marisa marisol marissa marit marius marjorie mark marko markus marlene marta martha marthe martin martina
    martine mary maryam mason massimo mateo mateusz matheus mathias mathieu mathilde matt matteo matthew matthias
    matthieu maud maureen maurice mauricio maurizio mauro max maxim maxime maximilian maxine maya mehmet mei melanie
    melinda melissa mercedes mette mia micaela michael michaela michal michel michela michele micheline michelle
    miguel mika mikael mike mikhail mikko mila milan milena miles milica millie minna miranda mireille miriam mirjam
    miroslav misaki mitchell mohamed mohammad mohammed moira moises molly mona monica monika monique morgan morten
    moritz
    muhammad mustafa myriam myrtle nadia nadine nadja nancy naomi natalia natalie nataliya natasha nathalie nathan
    nathaniel neal neha neil nelson nestor niamh nicholas nick nicola nicolas nicole nicoletta niels nigel nikita niklas
    nikola nikolai nikolas nikolaus nils nina nisha noah noel noemi noor nora norbert norma norman nuno octavia odette
    odile olaf ole oleg olga oliver olivia olivier olli omar ondrej oscar oskar otto ove owen pablo pamela
    paola paolo pascal pascale pat patricia patricio patrick patrik patrizia patty paul paula paulette paulina pauline
    paulo pavel pawel pedro peggy penelope penny peter petr petra petter phil philip philipp philippe phillip
    phoebe phyllis pia pierre pieter pietro pilar piotr pooja poppy pradeep pranav prakash preston priscilla priya
    quentin rachel rafael rafal raffaele rahul rainer raj rajesh ralf ralph ramesh ramon ramona randall randy raphael
    raquel rashid raul ravi ray raymond rebecca reggie regina reginald reiner remy renata renate rene renee reza
    rhonda ricardo riccardo richard rick ricky rita rob robert roberta roberto robin rocio rodney rodolfo rodrigo
    roger rohan rohit roland rolf roman romain romina ronald ronja ronnie rosa rosalie rosalind rosanna rosario
    rosemary rosie roswitha roxana roxanne ruben rudolf rui russell ruth ryan ryszard sabine sabrina sachin
    sadie saeed sakura sally salma salvador salvatore sam samantha samir samira sammy samuel sandeep sandra sandro
    sandrine sanjay sanna sara sarah sascha sasha satu scott sean sebastian sebastien selena selim
    selma sena serena serge sergei sergey sergio seth shane shannon sharon shaun shawn sheila shelby shelley sherri
    sherry shirley shreya shu sian sibel sibylle sidney siegfried sigrid silke silvia silvio simon simona simone
    sina sinead siobhan sini sofia sofie soledad solveig sonia sonja sophia sophie soren spencer stacey stacy
    stanislav stanislaw stefan stefania stefanie stefano steffen stella stephan stephane stephanie stephen steve
    steven stewart stine stuart sue sunil suresh susan susana susanna susanne suzanne svein sven svetlana sybille
    sylvain
    sylvia sylvie szymon tabitha takashi takeshi tamara tammy tanja tanya tara tariq tatiana tatyana ted teemu terence
    teresa teri terje terrence terri terry tessa thea thelma theo theodore theresa therese thierry thilo thomas
    thorsten tia tiago tiffany tim timo timothy tina tobias toby todd tom tomas tomasz tommaso tommy toni tony tonya
    torben tracey tracy travis trevor tricia tristan troy tuomas tyler ulf ulla ulrich ulrike ursula ute uwe vaclav
    valentin valentina valeria valerie vanessa vasily vera vernon veronica veronika veronique vicente vicki vicky
    victor victoria vijay vikram viktor viktoria vincent vincenzo viola violet virgil virginie vishal
    vitor viviana vivian vivienne vladimir volker wade walter wanda warren wayne wei wendy werner wesley wilfred
    wilhelm will willem william willie wilma winston wojciech wolfgang xavier xiao ximena yan yara yasmin yasmine
    yevgeny
    yolanda yuki yulia yumi yuri yusuf yves yvette yvonne zachary zahra zainab zara zbigniew zdenek zeynep zhang
    zoe zofia zoltan zsofia zuzana aarav sofiya olena oksana dmytro yusra noora omari chidi chioma ngozi
    emeka tunde adebayo oluwaseun kwame kofi akosua amara wanjiru thabo sipho lerato nomsa naledi hyun minho
    jiwoo seojun minjun hana ren sota yuto riku mei-ling xiuying jianwei yifan rajiv ananya ishaan rohini kavya
    mikaela ethel edna mildred agatha alfie archie noelle ezra elijah lucius mateus joaquim thiago rayan ines lotta
    """.split()
)
